"""The small corpus: plain Python, with the results of the large one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.recall import fusion
from memory.recall.index import large_corpus, numpy_index, small_corpus, term_encoding
from memory.recall.index.large_corpus import PassageRow
from memory.recall.index.retrieval_types import ParsedQuery
from memory.recall.types import Embedded

WORDS = ["sea", "cat", "tea", "sun", "oak"]
WORDINESS = st.lists(st.sampled_from(WORDS), max_size=6)
TEXTS = st.lists(st.tuples(WORDINESS, st.booleans()), max_size=12)
ASKED = Embedded("a", np.array([0.8, 0.6, 0, 0], np.float32))


def rows(texts, *, messages: bool = True) -> list[PassageRow]:
    """Passages; their numbers select their vectors, and every third has none."""
    return [
        (
            number * 2 + 1,
            7 if messages else None,
            number if messages else None,
            is_question,
            term_encoding.hash_terms(words).tobytes(),
            *(("", None) if number % 3 == 2 else ("a", vector(number))),
        )
        for number, (words, is_question) in enumerate(texts)
    ]


def vector(number: int) -> bytes:
    one = np.zeros(4, np.float32)
    one[number % 4] = 1
    return one.tobytes()


def found(corpus, question: ParsedQuery, weights, how) -> list[tuple[int, float]]:
    """Return the ranking by either corpus."""
    if isinstance(corpus, small_corpus.SmallCorpus):
        legs = corpus.find(question)
    else:
        windows = weights is fusion.MESSAGE_WEIGHTS
        legs = numpy_index._score_passages(corpus, question, None, windows=windows)
    ranking = fusion.fuse(legs, weights, how)
    return [
        (ranking.id_at(rank), *score_fields(ranking.score_at(rank)))
        for rank in range(len(ranking))
    ]


def score_fields(score) -> tuple:
    legs = (score.total, score.similarity, score.terms, score.window)
    return tuple(None if leg is None else round(leg, 4) for leg in legs)


def by_id(ranking: list) -> dict:
    return {number: rest for number, *rest in ranking}


@pytest.mark.parametrize("how", ["weighted", "rrf"])
@pytest.mark.parametrize("messages", [True, False])
@given(texts=TEXTS, words=WORDINESS.map(lambda w: list(dict.fromkeys(w))))
def test_small_corpus_scores_equal_large_corpus_scores(texts, words, messages, how):
    given_rows = rows(texts, messages=messages)
    weights = fusion.MESSAGE_WEIGHTS if messages else fusion.FACT_WEIGHTS
    question = ParsedQuery(words, ASKED, 0.1)
    short = found(small_corpus.build_corpus(given_rows), question, weights, how)
    long = found(large_corpus.build_corpus(given_rows), question, weights, how)
    assert by_id(short).keys() == by_id(long).keys()
    if how == "weighted":  # Ranks of equals may differ: floats are not doubles.
        for number, scores in by_id(short).items():
            assert scores == pytest.approx(by_id(long)[number], abs=1e-3)


@given(texts=TEXTS, cut=st.integers(0, 12))
def test_insertion_order_does_not_change_scores(texts, cut):
    every = rows(texts)
    question = ParsedQuery(WORDS, ASKED, 0.0)
    grown = small_corpus.append_rows(
        small_corpus.build_corpus(every[:cut]), every[cut:]
    )
    full_corpus = small_corpus.build_corpus(every)
    assert found(grown, question, fusion.MESSAGE_WEIGHTS, "weighted") == found(
        full_corpus, question, fusion.MESSAGE_WEIGHTS, "weighted"
    )


@given(texts=TEXTS, kept=st.sets(st.integers(0, 11)))
def test_removed_rows_leave_no_trace(texts, kept):
    every = rows(texts)
    remaining = [row for number, row in enumerate(every) if number in kept]
    question = ParsedQuery(WORDS, ASKED, 0.0)
    fewer = small_corpus.keep_only(
        small_corpus.build_corpus(every), [row[0] for row in remaining]
    )
    asked = (question, fusion.MESSAGE_WEIGHTS, "weighted")
    assert found(fewer, *asked) == found(small_corpus.build_corpus(remaining), *asked)


def test_previous_corpus_is_unchanged_by_an_append():
    old = small_corpus.build_corpus(rows([(["sea"], False), (["cat"], False)]))
    question = ParsedQuery(["sea"], None, 0.0)
    before = found(old, question, fusion.MESSAGE_WEIGHTS, "weighted")
    small_corpus.append_rows(
        old, rows([([], False), ([], False), (["sea"], False)])[2:]
    )
    assert found(old, question, fusion.MESSAGE_WEIGHTS, "weighted") == before


def test_excluded_rows_are_not_found():
    corpus = small_corpus.build_corpus(rows([(["sea"], False), (["sea"], False)]))
    legs = corpus.find(ParsedQuery(["sea"], ASKED, 0.0), lambda row: row[0] == 1)
    assert set(legs.terms) == {3}
    assert 1 not in legs.similarity


def test_each_retriever_returns_its_best_100():
    corpus = small_corpus.build_corpus(
        rows([(["sea"], False)] * small_corpus.MAX_PASSAGES)
    )
    legs = corpus.find(ParsedQuery(["sea"], ASKED, 0.0))
    assert len(legs.terms) == 100
