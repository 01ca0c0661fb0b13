"""Relevance of each passage of a corpus to a query, as arrays of scores."""

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import inverted_index
from memory.recall.index.inverted_index import K1, Floats, TermHits
from memory.recall.index.large_corpus import LargeCorpus
from memory.recall.index.retrieval_types import Scores
from memory.recall.types import Embedded

MAX_TERMS = 64
"""The terms of a query that count: the rarest. Real queries have fewer."""
MAX_CELLS = 1_000_000
"""Cells of the table of terms by messages per step: 4 MB."""


def cosine_similarities(corpus: LargeCorpus, embedded: Embedded) -> Floats:
    """Return each passage's cosine similarity to the query; zero if it has no such
    vector."""
    blocks = corpus.spaces.get((embedded.embedder, len(embedded.vector)), ())
    if len(blocks) == 1 and len(blocks[0].numbers) == len(corpus.ids):
        similarities: Floats = blocks[0].matrix @ embedded.vector
        return similarities
    found = np.zeros(len(corpus.ids), np.float32)
    for block in blocks:
        found[block.numbers] = block.matrix @ embedded.vector
    return found


def find_terms(corpus: LargeCorpus, hashes: NDArray[np.uint32]) -> TermHits:
    """Return the occurrences of distinct terms; of too many terms, only the rarest."""
    found = corpus.merged_postings.find(hashes)
    if len(corpus.recent_postings.pairs):
        found = inverted_index.concatenate_hits(
            found, corpus.recent_postings.find(hashes)
        )
    if corpus.live_count < len(corpus.ids):
        found = found.select(corpus.alive[found.text])
    if len(hashes) <= MAX_TERMS:
        return found
    having = np.bincount(found.term, minlength=len(hashes))
    indexes = np.full(len(hashes), -1)
    rarest = np.argsort(np.where(having, having, len(corpus.ids)))[:MAX_TERMS]
    indexes[rarest] = np.arange(MAX_TERMS)
    found = TermHits(indexes[found.term], found.text, found.count)
    return found.select(found.term >= 0)


def bm25_scores(corpus: LargeCorpus, found: TermHits) -> Scores:
    """Return each passage's BM25 score by its own text; zero without a match."""
    idf = inverted_index.idf(corpus.live_count, np.bincount(found.term))
    weights = idf[found.term] * _saturated_counts(found.count, corpus.norms[found.text])
    scores = np.bincount(found.text, weights, minlength=len(corpus.ids))
    return scores.astype(np.float64, copy=False)


def window_bm25_scores(corpus: LargeCorpus, found: TermHits) -> Scores:
    """Return each message's BM25 score over its text and its neighbours' as one
    text."""
    words = int(found.term.max(initial=-1)) + 1
    total = np.zeros(len(corpus.ids), np.float32)
    step = max(1, MAX_CELLS // (len(corpus.ids) + 1))
    for first in range(0, words, step):
        size = min(step, words - first)
        some = found
        if size < words:
            some = found.select((found.term >= first) & (found.term < first + size))
        counts = _window_counts(corpus, some, first, size)
        idf = inverted_index.idf(corpus.live_count, np.count_nonzero(counts, axis=1))
        total += idf.astype(np.float32) @ _saturated_counts(counts, corpus.window_norms)
    return total


def _window_counts(
    corpus: LargeCorpus, found: TermHits, first: int, size: int
) -> Floats:
    # The last column collects values for missing neighbours.
    table = np.zeros((size, len(corpus.ids) + 1), np.float32)
    row = found.term - first
    table[row, found.text] = found.count
    # A text has one neighbour on each side, so only cells of the last column repeat.
    table[row, corpus.previous[found.text]] += found.count
    table[row, corpus.following[found.text]] += found.count
    return table[:, :-1]


def _saturated_counts(counts: Floats, norms: Floats) -> Floats:
    return counts * np.float32(K1 + 1) / (counts + norms)
