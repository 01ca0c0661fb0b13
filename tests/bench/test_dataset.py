"""The retrieval data set is consistent, and both conversation formats are read."""

import json
from collections import Counter
from typing import get_args

import pytest

from bench.memory_search import dataset
from bench.memory_search.dataset import DATA, Label
from memory.facts.types import SearchedCategory

DATA_SET = dataset.load()
KINDS = {"crosslingual", "direct", "indirect", "multi", "paraphrased"}


def repeated(names) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_ids_are_unique():
    lines = (DATA / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert repeated(row["id"] for row in rows) == []
    assert repeated(fact.id for fact in DATA_SET.facts) == []
    assert repeated(pair.id for pair in DATA_SET.pairs) == []
    for conversation in DATA_SET.conversations:
        assert repeated(line.id for line in conversation.lines) == []


def test_facts_and_queries_are_unique():
    assert repeated((fact.user, fact.content) for fact in DATA_SET.facts) == []
    assert repeated((query.user, query.text) for query in DATA_SET.queries) == []
    assert repeated((pair.old, pair.new) for pair in DATA_SET.pairs) == []
    for conversation in DATA_SET.conversations:
        assert repeated(question.text for question in conversation.questions) == []


def test_dataset_has_the_promised_size():
    facts, queries = (
        Counter(one.user for one in rows) for rows in (DATA_SET.facts, DATA_SET.queries)
    )
    assert facts["ines"] + facts["mei"] >= 160
    assert queries["ines"] + queries["mei"] >= 200
    assert len(DATA_SET.pairs) >= 120
    assert len(DATA_SET.conversations) >= 3
    assert all(len(one.lines) >= 120 for one in DATA_SET.conversations)
    assert sum(len(one.questions) for one in DATA_SET.conversations) >= 120


def test_answers_are_current_facts_of_the_same_user():
    superseded = {fact.supersedes for fact in DATA_SET.facts}
    owners = {
        fact.id: fact.user for fact in DATA_SET.facts if fact.id not in superseded
    }
    for query in DATA_SET.queries:
        assert query.answers
        assert {owners.get(one) for one in query.answers} == {query.user}, query


def test_superseded_fact_belongs_to_the_same_user():
    owners: dict[str, str] = {"": ""}
    for fact in DATA_SET.facts:
        assert owners[fact.supersedes] in ("", fact.user)
        owners[fact.id] = fact.user


def test_every_fact_of_the_main_users_has_a_query():
    superseded = {fact.supersedes for fact in DATA_SET.facts}
    main = {fact.id for fact in DATA_SET.facts if fact.user != "vera"}
    answers = {one for query in DATA_SET.queries for one in query.answers}
    assert main - superseded - answers == set()


def test_answers_refer_to_existing_lines():
    for conversation in DATA_SET.conversations:
        line_ids = {line.id for line in conversation.lines}
        for question in conversation.questions:
            assert question.answers
            assert set(question.answers) <= line_ids, question


def test_labels_kinds_and_categories_are_valid():
    assert {pair.label for pair in DATA_SET.pairs} == set(get_args(Label))
    assert {query.kind for query in DATA_SET.queries} == KINDS
    assert {fact.category for fact in DATA_SET.facts} == {
        *get_args(SearchedCategory)
    } - {"episode"}
    kinds = {one.kind for each in DATA_SET.conversations for one in each.questions}
    assert kinds <= KINDS


def test_multi_answer_queries_have_their_kind():
    for query in DATA_SET.queries:
        assert (query.kind == "multi") == (len(query.answers) > 1) or (
            query.kind == "indirect"
        ), query


@pytest.mark.parametrize("rows", [DATA_SET.facts, DATA_SET.queries, DATA_SET.pairs])
def test_queries_cover_many_languages(rows):
    count = Counter(one.language for one in rows)
    assert count.keys() == {"ar", "de", "en", "es", "fr", "ja", "pt", "zh"}
    assert all(count[language] >= 10 for language in ("de", "en", "es", "fr", "zh"))


def test_halves_are_balanced():
    halves = Counter(query.half for query in DATA_SET.queries)
    assert 0.4 < halves["tuning"] / len(DATA_SET.queries) < 0.6


def test_conversations_have_two_speakers():
    assert all(len(one.speakers) == 2 for one in DATA_SET.conversations)


def test_sample_keeps_facts_and_reduces_queries():
    sample = DATA_SET.sample(5)
    assert sample.facts == DATA_SET.facts
    assert len(sample.queries) == len(sample.pairs) == 5
    [conversation] = sample.conversations
    assert len(conversation.questions) == 5


# Other files.

TURNS = [
    {"speaker": "Ann", "dia_id": "D1:1", "text": "I got a parrot."},
    {"speaker": "Bo", "dia_id": "D1:2", "text": "What colour is it?"},
]
LATER = [{"speaker": "Ann", "dia_id": "D2:1", "text": "It is green."}]
PUBLIC = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bo",
        "session_2": LATER,
        "session_2_date_time": "2:00 pm on 9 May, 2023",
        "session_1": TURNS,
        "session_1_date_time": "1:00 pm on 8 May, 2023",
    },
    "qa": [
        {
            "question": "Which pet?",
            "answer": 0,
            "evidence": ["D1:1; D2:1", "D9:9"],
            "category": 1,
        },
        {"question": "No evidence?", "answer": "x", "evidence": [], "category": 3},
        {
            "question": "Whose cat?",
            "adversarial_answer": "Bo's",
            "evidence": ["D1:1"],
            "category": 5,
        },
    ],
}


def test_public_format_is_read_by_session(tmp_path):
    file = tmp_path / "public.json"
    file.write_text(json.dumps([PUBLIC]))

    [conversation] = dataset.transcripts(file)

    assert [line.id for line in conversation.lines] == ["D1:1", "D1:2", "D2:1"]
    assert conversation.speakers == ["Ann", "Bo"]
    [question] = conversation.questions
    assert (question.text, question.kind) == ("Which pet?", "1")
    assert question.answers == ("D1:1", "D2:1")


def test_own_format_holds_several_conversations(tmp_path):
    lines = [
        {"conversation": "one"},
        {"id": "1", "speaker": "Ann", "text": "a\u2028b"},
        {"question": "Which?", "evidence": ["1"]},
        {"conversation": "two", "language": "de"},
        {"id": "1", "speaker": "Bo", "text": "c"},
        {"question": "Was?", "evidence": ["1"], "kind": "indirect"},
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(json.dumps(x, ensure_ascii=False) for x in lines))

    one, two = dataset.transcripts(file)

    assert [line.text for line in one.lines] == ["a\u2028b"]
    assert (one.questions[0].kind, one.questions[0].language) == ("direct", "")
    assert (two.questions[0].kind, two.questions[0].language) == ("indirect", "de")


@pytest.mark.parametrize(
    "text", ["", "{}", '{"id": "1"}', "[1]", '[{"qa": []}]', "prose", '{"a": ']
)
def test_unknown_file_format_is_refused(tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json is in neither format"):
        dataset.transcripts(file)
