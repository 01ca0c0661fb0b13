"""The large corpus: scores do not depend on the order of changes."""

import math
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.recall.index import (
    inverted_index,
    large_corpus,
    relevance_scores,
    term_encoding,
)
from memory.recall.types import Embedded

WORDS = ["sea", "cat", "tea", "sun", "oak"]
WORDINESS = st.lists(st.sampled_from(WORDS), max_size=6)


def row(
    number: int, words: list[str], position: int | None = None, embedder: str = "a"
) -> large_corpus.PassageRow:
    """A passage; its number selects the direction of its vector."""
    vector = np.zeros(4, np.float32)
    vector[number % 4] = 1
    hashes = term_encoding.hash_terms(words).tobytes()
    thread = None if position is None else 7
    return number, thread, position, False, hashes, embedder, vector.tobytes()


def scores(
    corpus: large_corpus.LargeCorpus, words: list[str]
) -> dict[int, tuple[float, ...]]:
    """The scores of current passages, by id."""
    hits = relevance_scores.find_terms(corpus, term_encoding.hash_terms(words))
    asked = Embedded("a", np.array([1, 0.5, 0, 0], np.float32))
    legs = [
        relevance_scores.cosine_similarities(corpus, asked),
        relevance_scores.bm25_scores(corpus, hits),
        relevance_scores.window_bm25_scores(corpus, hits),
    ]
    return {
        int(number): tuple(round(float(leg[place]), 4) for leg in legs)
        for place, number in enumerate(corpus.ids)
        if corpus.alive[place]
    }


def bm25(texts: list[list[str]], words: list[str]) -> list[float]:
    """Textbook BM25."""
    usual = max(sum(map(len, texts)) / len(texts), 1)
    found = []
    for text in texts:
        total = 0.0
        for word in words:
            having = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            count = Counter(text)[word]
            norm = 1.2 * (0.25 + 0.75 * len(text) / usual)
            total += idf * count * 2.2 / (count + norm)
        found.append(round(total, 4))
    return found


@given(st.lists(WORDINESS, min_size=1, max_size=12))
def test_terms_are_weighted_by_bm25(texts):
    corpus = large_corpus.build_corpus(
        [row(n, words, n) for n, words in enumerate(texts)]
    )
    found = scores(corpus, WORDS[:3])
    assert [found[n][1] for n in range(len(texts))] == pytest.approx(
        bm25(texts, WORDS[:3]), abs=1e-3
    )


@given(st.lists(WORDINESS, min_size=1, max_size=12))
def test_message_window_includes_its_neighbours(texts):
    windows = [list(chain(*texts[max(n - 1, 0) : n + 2])) for n in range(len(texts))]
    corpus = large_corpus.build_corpus(
        [row(n, words, n) for n, words in enumerate(texts)]
    )
    found = scores(corpus, WORDS[:3])
    assert [found[n][2] for n in range(len(texts))] == pytest.approx(
        bm25(windows, WORDS[:3]), abs=1e-3
    )


def test_windows_end_at_thread_end_and_missing_message():
    texts = [(1, 0, "cat"), (1, 1, "sea"), (1, 3, "sun"), (2, 4, "oak")]
    rows = [
        (
            n,
            thread,
            position,
            False,
            term_encoding.hash_terms([word]).tobytes(),
            "",
            None,
        )
        for n, (thread, position, word) in enumerate(texts)
    ]
    found = scores(large_corpus.build_corpus(rows), ["cat", "sun"])
    assert [found[n][2] > 0 for n in range(4)] == [True, True, True, False]


@given(
    st.lists(WORDINESS, min_size=2, max_size=30),
    st.lists(st.integers(1, 6), max_size=8),
    st.sets(st.integers(0, 29)),
    st.integers(1, 8),
)
def test_incrementally_built_corpus_equals_full_build(texts, sizes, removed, merged):
    rows = [row(n, words, n, "ab"[n % 3 == 2]) for n, words in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_corpus, "MIN_MERGED", merged)
        corpus = large_corpus.EMPTY
        remaining = list(rows)
        for size in [*sizes, len(rows)]:
            batch, remaining = remaining[:size], remaining[size:]
            if batch:
                corpus = large_corpus.append_rows(corpus, batch)
        kept_numbers = np.array(
            [n for n in range(len(rows)) if n not in removed], np.int64
        )
        corpus = large_corpus.keep_only(corpus, kept_numbers)
        again = row(100, ["cat", "sea"], len(rows))
        corpus = large_corpus.append_rows(corpus, [again])
    rebuilt = large_corpus.build_corpus([rows[n] for n in kept_numbers] + [again])
    assert scores(corpus, WORDS) == scores(rebuilt, WORDS)


def test_vectors_of_other_embedders_are_ignored():
    corpus = large_corpus.build_corpus([row(0, ["cat"]), row(4, ["cat"], embedder="b")])
    assert scores(corpus, ["cat"])[0][0] == 1
    assert scores(corpus, ["cat"])[4][0] == 0


def test_rarest_terms_of_a_long_query_count(monkeypatch):
    monkeypatch.setattr(relevance_scores, "MAX_TERMS", 1)
    corpus = large_corpus.build_corpus(
        [row(n, ["cat"]) for n in range(3)] + [row(3, ["sea", "cat"])]
    )
    found = scores(corpus, ["oak", "cat", "sea", "sun"])
    assert [found[n][1] > 0 for n in range(4)] == [False, False, False, True]


def test_windows_are_scored_block_by_block(monkeypatch):
    rows = [row(n, [WORDS[n % 5], WORDS[n % 3]], n) for n in range(20)]
    rebuilt = scores(large_corpus.build_corpus(rows), WORDS)
    monkeypatch.setattr(relevance_scores, "MAX_CELLS", 45)
    assert scores(large_corpus.build_corpus(rows), WORDS) == rebuilt


def test_each_term_hash_has_its_own_postings():
    texts = [np.array(pair, "<u4").tobytes() for pair in ([0, 2**32 - 1], [0, 0])]
    index = inverted_index.build_postings(texts)
    found = index.find(np.array([0, 2**32 - 1, 5], np.uint32))
    assert found.term.tolist() == [0, 0, 1]
    assert found.text.tolist() == [0, 1, 0]
    assert found.count.tolist() == [1, 2, 1]


def test_empty_corpus_finds_nothing():
    assert scores(large_corpus.EMPTY, WORDS) == {}
