"""The quality measurement of memory, and its metrics."""

import json

import numpy as np
import pytest

from bench import __main__
from bench.memory_search import (
    deduplication,
    embeddings,
    metrics,
    quality,
    question_ranks,
)
from bench.memory_search.dataset import (
    Dataset,
    DatasetConversation,
    DatasetFact,
    DatasetMessage,
    DatasetQuestion,
    FactPair,
)
from bench.memory_search.embeddings import DatasetVectors
from bench.memory_search.metrics import RETRIEVERS, PairResult, QuestionResult
from bench.memory_search.quality_report import QualityReport, render

FACTS = (
    DatasetFact("a-old", "ann", "en", "fact", "The user lives in Bergen."),
    DatasetFact("a", "ann", "en", "fact", "The user lives in Ghent.", "a-old"),
    DatasetFact("b", "ann", "en", "fact", "The user keeps bees."),
    DatasetFact("c", "cy", "en", "fact", "The user lives in Turin."),
)
LINES = (
    DatasetMessage("1", "Ann", "My parrot is called Rufus."),
    DatasetMessage("2", "Bo", "What colour is he?"),
    DatasetMessage("3", "Ann", "Green, with a red tail."),
)
SMALL = Dataset(
    FACTS,
    (DatasetQuestion("ann", "Where do I live? lives", ("a",), "direct", "en"),),
    (
        FactPair(
            "p", "en", "paraphrase", "The user keeps bees.", "The user keeps BEES."
        ),
    ),
    (
        DatasetConversation(
            "pets",
            LINES,
            (DatasetQuestion("pets", "the parrot", ("1",), "direct", "en"),),
        ),
    ),
)


def result(ranks, **fields) -> QuestionResult:
    defaults = {"embedder": "hash:32", "retriever": "vector", "kind": "direct"}
    defaults |= {"corpus": "facts", "language": "en", "half": "report"}
    return QuestionResult(**defaults | fields, ranks=ranks, foreign=0, milliseconds=1.0)


# Metrics.


def test_recall_is_the_share_of_answers_found():
    one, two = result([5]), result([1, 10, None, 12])
    assert metrics.recall([one], 4) == 0
    assert metrics.recall([one], 5) == 1
    assert metrics.recall([two], 5) == 0.25
    assert metrics.recall([two], 10) == 0.5
    assert metrics.recall([one, two], 10) == 0.75


def test_reciprocal_rank_uses_the_first_answer():
    assert metrics.reciprocal_rank([result([4, 2])]) == 0.5
    assert metrics.reciprocal_rank([result([None]), result([1])]) == 0.5


@pytest.mark.parametrize(
    ("label", "verdict", "error"),
    [
        ("paraphrase", "kept both", "stored twice"),
        ("paraphrase", "merged", None),
        ("paraphrase", "superseded", None),
        ("contradiction", "kept both", "both left active"),
        ("contradiction", "merged", "merged, as if the same"),
        ("contradiction", "superseded", None),
        ("different", "kept both", None),
        ("different", "merged", "lost by a merge"),
        ("different", "superseded", "lost by superseding"),
    ],
)
def test_verdicts_are_compared_with_their_label(label, verdict, error):
    assert metrics.ERRORS.get((label, verdict)) == error
    pairs = [PairResult("p", "en", label, "local", verdict)]
    if error:
        assert metrics.errors(pairs, label, error) == "1 of 1 (100 %)"


# Measurement.


@pytest.fixture(scope="module")
def vectors() -> DatasetVectors:
    return embeddings.embed_dataset("hash:32", SMALL)


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_each_retriever_finds_answers_of_its_user_only(vectors):
    results = list(question_ranks.rank_answers(SMALL, vectors))

    assert [(one.corpus, one.retriever) for one in results] == [
        *(("facts", retriever) for retriever in RETRIEVERS),
        *(("messages", retriever) for retriever in RETRIEVERS),
    ]
    assert {one.foreign for one in results} == {0}
    assert [one.ranks for one in results if one.retriever != "vector"] == [[1]] * 6


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_superseded_fact_is_not_found(vectors):
    ann, cy, pets = question_ranks.store_dataset(SMALL, vectors)
    assert [set(one.names.values()) for one in (ann, cy)] == [{"a", "b"}, {"c"}]
    assert list(pets.names.values()) == ["1", "2", "3"]


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_superseded_fact_in_results_counts_as_wrong(vectors, monkeypatch):
    """The harness does not know the names of the stored facts here."""
    stored = next(iter(question_ranks.store_dataset(SMALL, vectors)))
    unknown = type(stored)(stored.corpus, stored.user_id, {}, stored.questions)

    monkeypatch.setattr(
        question_ranks, "store_dataset", lambda data, vectors: [unknown]
    )
    [measured] = question_ranks.rank_answers(SMALL, vectors, ["lexical"])

    assert measured.foreign == 1
    assert measured.ranks == [None]


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_pairs_use_the_fact_store(vectors):
    same = FactPair(
        "s", "en", "paraphrase", "The user keeps bees.", "The user keeps BEES."
    )
    other = FactPair(
        "o", "en", "different", "The user keeps bees.", "The user lives here."
    )
    data = Dataset(pairs=(same, other))
    results = deduplication.save_pairs(
        data.pairs, embeddings.embed_dataset("hash:32", data)
    )
    assert [(one.pair, one.verdict) for one in results] == [
        ("s", "merged"),
        ("o", "kept both"),
    ]


def test_vectors_are_cached_for_the_next_database(tmp_path, monkeypatch):
    vectors = embeddings.load_or_embed("hash:32", SMALL, tmp_path)
    monkeypatch.delattr(embeddings, "embed_dataset")
    again = embeddings.load_or_embed("hash:32", SMALL, tmp_path)

    assert (again.embedder, again.floor) == (vectors.embedder, vectors.floor)
    assert vectors.texts.keys() == again.texts.keys()
    assert "lives in Ghent." in again.texts
    np.testing.assert_array_equal(
        again.of_question("the parrot").vector, vectors.of_question("the parrot").vector
    )


# Reports.


def test_report_has_each_retriever_and_kind():
    results = [result([1]), result([None], retriever="lexical", kind="multi")]
    report = QualityReport(
        "sqlite",
        results,
        [PairResult("p", "en", "paraphrase", "hash:32", "merged")],
        {"hash:32": [0.5]},
    )
    lines = [line.split() for line in render([report], by="kind").splitlines()]
    assert ["facts", "1", "questions", "SQLite"] in lines
    assert ["hash:32", "vector", *["1.00"] * 4, *["1.00"] * 2] in lines
    assert ["-", "lexical", *[".000"] * 4, *["1.00"] * 2] in lines
    assert ["facts,", "R@5", "direct", "multi"] in lines
    assert ["hash:32", "vector", "1.00", "-"] in lines
    assert ["paraphrase", "stored", "twice", *["0", "of", "1", "(0", "%)"]] in lines


def test_report_can_cover_one_half():
    report = QualityReport("sqlite", [result([1]), result([2], half="tuning")], [])
    assert [one.ranks for one in report.of_half("tuning").questions] == [[2]]


def test_command_measures_a_file_on_its_own_database(tmp_path, capsys):
    file = tmp_path / "own.jsonl"
    rows = [
        {"conversation": "pets"},
        *({"id": x.id, "speaker": x.speaker, "text": x.text} for x in LINES),
        {"question": "the parrot", "evidence": ["1"]},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))

    __main__.main(
        [
            "memory-quality",
            "--transcripts",
            str(file),
            "--backend",
            "sqlite",
            "--embedder",
            "hash:32",
            "--quick",
        ]
    )

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["messages", "1", "questions", "SQLite"] in lines
    assert sum(line[1:2] == ["weighted"] for line in lines) == 1


@pytest.mark.parametrize("text", [None, "prose"])
def test_unreadable_file_is_named_before_measuring(tmp_path, capsys, text):
    file = tmp_path / "own.jsonl"
    if text:
        file.write_text(text)
    with pytest.raises(SystemExit):
        __main__.main(["memory-quality", "--transcripts", str(file)])
    assert str(file) in capsys.readouterr().err


def test_aborted_measurement_is_not_reported(tmp_path):
    with pytest.raises(RuntimeError, match="on sqlite failed"):
        quality.measure([tmp_path / "none"], backends=["sqlite"])
