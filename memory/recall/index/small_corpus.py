"""One user's passages of one kind while they are few, in plain Python.

The counterpart of `memory.recall.index.large_corpus`. For a hundred passages, numpy's
many small steps take longer than these loops and displace other code from the
processor's cache: they raised the server's remaining CPU time by half.

All values are immutable: `append_rows` and `keep_only` return new ones.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.models.fields import FLOAT32
from memory.recall.index import large_corpus
from memory.recall.index.inverted_index import K1, B
from memory.recall.index.large_corpus import NO_MESSAGE, PassageRow, VectorSpace
from memory.recall.index.retrieval_types import (
    MIN_SIMILARITY,
    RETRIEVAL_DEPTH,
    ParsedQuery,
    SparseRetrieverScores,
)
from memory.recall.index.term_encoding import HASH32, hash_term

MAX_PASSAGES = 200
"""Up to this count, these loops are faster."""

SparseScores = dict[int, float]
"""Scores by a passage's number; passages without a score are missing."""
TermCounts = dict[int, int]
NO_COUNTS: TermCounts = {}


class EmbedderVectors(NamedTuple):
    numbers: list[int]
    """The numbers of their passages."""
    matrix: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TermIndex:
    """An inverted index: the texts that contain each term."""

    lengths: tuple[int, ...] = ()
    """The number of terms of each text."""
    postings: Mapping[int, TermCounts] = field(default_factory=dict)
    """The texts and frequencies of a term, keyed by its hash."""

    def bm25(self, hashes: Sequence[int]) -> SparseScores:
        """Return the BM25 score of each text that has any of the terms."""
        texts = max(len(self.lengths), 1)
        mean_length = max(sum(self.lengths) / texts, 1.0)
        short, per_term = K1 * (1 - B), K1 * B / mean_length
        scores: SparseScores = {}
        for term in hashes:
            counts = self.postings.get(term, NO_COUNTS)
            idf = math.log1p((texts - len(counts) + 0.5) / (len(counts) + 0.5))
            for number, count in counts.items():
                norm = short + per_term * self.lengths[number]
                weight = idf * count * (K1 + 1) / (count + norm)
                scores[number] = scores.get(number, 0.0) + weight
        return scores


class _TermIndexBuilder:
    """A builder that extends a term index without changing it."""

    def __init__(self, words: TermIndex) -> None:
        self._lengths = list(words.lengths)
        self._postings = dict(words.postings)
        self._own: set[int] = set()

    def add_text(self) -> None:
        """Add a text without terms."""
        self._lengths.append(0)

    def add_terms(self, number: int, terms: TermCounts) -> None:
        self._lengths[number] += sum(terms.values())
        for term, count in terms.items():
            if term not in self._own:
                self._own.add(term)
                self._postings[term] = dict(self._postings.get(term, NO_COUNTS))
            counts = self._postings[term]
            counts[number] = counts.get(number, 0) + count

    def build(self) -> TermIndex:
        return TermIndex(tuple(self._lengths), self._postings)


@dataclass(frozen=True, slots=True)
class SmallCorpus:
    """Passages, numbered from 0 in the order of their ids."""

    rows: tuple[PassageRow, ...] = ()
    words: TermIndex = field(default_factory=TermIndex)
    windows: TermIndex = field(default_factory=TermIndex)
    """The terms of messages, each with its neighbours."""
    numbers: Mapping[int, int] = field(default_factory=dict)
    """The numbers of messages by key; the keys of neighbours differ by one."""
    spaces: Mapping[VectorSpace, EmbedderVectors] = field(default_factory=dict)
    """The vectors of each embedder."""

    @property
    def live_count(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """The approximate size: vectors, counts of terms, and rows."""
        vectors = sum(matrix.nbytes for _, matrix in self.spaces.values())
        terms = sum(self.words.lengths) + sum(self.windows.lengths)
        return vectors + 100 * terms + 500 * len(self.rows)

    def find(
        self,
        query: ParsedQuery,
        exclude: Callable[[PassageRow], bool] | None = None,
    ) -> SparseRetrieverScores:
        """Return the best matches per retriever, without the excluded rows."""
        hashes = list(map(hash_term, query.terms))
        window = self.windows.bm25(hashes) if self.numbers else {}
        by_retriever = (
            _similarity_scores(self, query),
            self.words.bm25(hashes),
            window,
        )
        excluded = {n for n, row in enumerate(self.rows) if exclude and exclude(row)}
        similarity, terms, window = (
            self._best_by_id(scores, excluded) for scores in by_retriever
        )
        found = {*similarity, *terms, *window}
        questions = {row[0] for row in self.rows if row[3] and row[0] in found}
        return SparseRetrieverScores(similarity, terms, window, questions)

    def _best_by_id(self, scores: SparseScores, excluded: set[int]) -> SparseScores:
        rows = self.rows
        by_id = {
            rows[number][0]: s for number, s in scores.items() if number not in excluded
        }
        if len(by_id) <= RETRIEVAL_DEPTH:
            return by_id
        return dict(
            heapq.nlargest(RETRIEVAL_DEPTH, by_id.items(), key=lambda pair: pair[1])
        )


def build_corpus(rows: Sequence[PassageRow]) -> SmallCorpus:
    """Return a corpus of rows, which must be ordered by id."""
    return append_rows(SmallCorpus(), rows)


def append_rows(corpus: SmallCorpus, rows: Sequence[PassageRow]) -> SmallCorpus:
    """Return a corpus with these rows added; their ids must be the highest."""
    all_rows = [*corpus.rows, *rows]
    numbers = dict(corpus.numbers)
    words, windows = _TermIndexBuilder(corpus.words), _TermIndexBuilder(corpus.windows)
    for number, row in enumerate(rows, start=len(corpus.rows)):
        terms = _count_terms(row)
        words.add_text()
        words.add_terms(number, terms)
        key = large_corpus.message_key_of_row(row)
        if key != NO_MESSAGE:
            windows.add_text()
            windows.add_terms(number, terms)
            for next_key in (key - 1, key + 1):
                if (neighbour := numbers.get(next_key)) is not None:
                    windows.add_terms(neighbour, terms)
                    windows.add_terms(number, _count_terms(all_rows[neighbour]))
            numbers[key] = number
    spaces = _with_vectors(corpus, rows)
    return SmallCorpus(tuple(all_rows), words.build(), windows.build(), numbers, spaces)


def keep_only(corpus: SmallCorpus, ids: Sequence[int]) -> SmallCorpus:
    kept_ids = set(ids)
    return build_corpus([row for row in corpus.rows if row[0] in kept_ids])


def _count_terms(row: PassageRow) -> TermCounts:
    return Counter(np.frombuffer(row[4], HASH32).tolist())


def _with_vectors(
    corpus: SmallCorpus, rows: Sequence[PassageRow]
) -> dict[VectorSpace, EmbedderVectors]:
    added: dict[VectorSpace, tuple[list[int], list[bytes]]] = {}
    for number, row in enumerate(rows, start=len(corpus.rows)):
        embedder, vector = row[5:]
        if vector is not None:
            space = embedder, len(vector) // FLOAT32.itemsize
            numbers, vectors = added.setdefault(space, ([], []))
            numbers.append(number)
            vectors.append(vector)
    spaces = dict(corpus.spaces)
    for space, (numbers, vectors) in added.items():
        matrix = np.frombuffer(b"".join(vectors), FLOAT32).reshape(-1, space[1])
        if (block := spaces.get(space)) is not None:
            numbers = [*block.numbers, *numbers]
            matrix = np.concatenate([block.matrix, matrix])
        spaces[space] = EmbedderVectors(numbers, matrix)
    return spaces


def _similarity_scores(corpus: SmallCorpus, query: ParsedQuery) -> SparseScores:
    embedded = query.embedded
    if embedded is None:
        return {}
    vectors = corpus.spaces.get((embedded.embedder, len(embedded.vector)))
    if vectors is None:
        return {}
    floor = max(query.similarity_threshold, MIN_SIMILARITY)
    cosines = (vectors.matrix @ embedded.vector).tolist()
    found = zip(vectors.numbers, cosines, strict=True)
    return {number: cosine for number, cosine in found if cosine >= floor}


EMPTY = SmallCorpus()
