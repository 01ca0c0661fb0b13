"""One user's passages of one kind while they are few, in plain Python.

What `memory.recall.index.large_corpus` is for many. For a hundred passages numpy's many
small steps take longer than these loops, and each is code the processor has to fetch: a
server that searched so had to work half as much again at everything else it did.

Nothing here changes: `appended` and `without` return another.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.fields import FLOAT32, HASH32
from memory.recall.index import large_corpus
from memory.recall.index.inverted_index import K1, B
from memory.recall.index.large_corpus import NOWHERE, Row, Space
from memory.recall.index.retrieval_types import DEPTH, TINY, Found, Question
from memory.recall.index.term_encoding import hash_of

MOST = 200
"""Up to so many passages, these loops are faster."""

Scores = dict[int, float]
"""By a passage's number; one that was not found is not in it."""
Counts = dict[int, int]
NOBODY: Counts = {}


class Vectors(NamedTuple):
    """Those of one embedder."""

    numbers: list[int]
    """Of the passages they are of."""
    matrix: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Words:
    """Which texts have which terms: an inverted index."""

    lengths: tuple[int, ...] = ()
    """How many terms each text has."""
    postings: Mapping[int, Counts] = field(default_factory=dict)
    """By the hash of a term, which texts have it, and how often."""

    def bm25(self, hashes: Sequence[int]) -> Scores:
        """Return the score of each text that has any of the terms."""
        texts = max(len(self.lengths), 1)
        usual = max(sum(self.lengths) / texts, 1.0)
        short, per_term = K1 * (1 - B), K1 * B / usual
        scores: Scores = {}
        for term in hashes:
            counts = self.postings.get(term, NOBODY)
            idf = math.log1p((texts - len(counts) + 0.5) / (len(counts) + 0.5))
            for number, count in counts.items():
                norm = short + per_term * self.lengths[number]
                worth = idf * count * (K1 + 1) / (count + norm)
                scores[number] = scores.get(number, 0.0) + worth
        return scores


class _Growing:
    """Words that others are added to; those they were stay as they are."""

    def __init__(self, words: Words) -> None:
        self._lengths = list(words.lengths)
        self._postings = dict(words.postings)
        self._own: set[int] = set()

    def add_text(self) -> None:
        """Add a text without terms."""
        self._lengths.append(0)

    def add_terms(self, number: int, terms: Counts) -> None:
        """Add terms to a text."""
        self._lengths[number] += sum(terms.values())
        for term, count in terms.items():
            if term not in self._own:
                self._own.add(term)
                self._postings[term] = dict(self._postings.get(term, NOBODY))
            counts = self._postings[term]
            counts[number] = counts.get(number, 0) + count

    def build(self) -> Words:
        return Words(tuple(self._lengths), self._postings)


@dataclass(frozen=True, slots=True)
class Few:
    """Passages, numbered from 0 in the order of their ids."""

    rows: tuple[Row, ...] = ()
    words: Words = field(default_factory=Words)
    windows: Words = field(default_factory=Words)
    """Of messages, each with its neighbours."""
    numbers: Mapping[int, int] = field(default_factory=dict)
    """Of messages, by their place: a neighbour's is one more or less."""
    spaces: Mapping[Space, Vectors] = field(default_factory=dict)
    """The vectors of each embedder."""

    @property
    def live_count(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """About what it takes: its vectors, a count for each term, a row for each."""
        vectors = sum(matrix.nbytes for _, matrix in self.spaces.values())
        terms = sum(self.words.lengths) + sum(self.windows.lengths)
        return vectors + 100 * terms + 500 * len(self.rows)

    def find(
        self, question: Question, left_out: Callable[[Row], bool] | None = None
    ) -> Found:
        """Return what fits, the best of each way, but nothing that is left out."""
        hashes = list(map(hash_of, question.terms))
        window = self.windows.bm25(hashes) if self.numbers else {}
        legs = (_near(self, question), self.words.bm25(hashes), window)
        out = {n for n, row in enumerate(self.rows) if left_out and left_out(row)}
        similarity, terms, window = (self._best_by_id(leg, out) for leg in legs)
        some = {*similarity, *terms, *window}
        asking = {row[0] for row in self.rows if row[3] and row[0] in some}
        return Found(similarity, terms, window, asking)

    def _best_by_id(self, leg: Scores, out: set[int]) -> Scores:
        """Return the best of a leg by their ids."""
        rows = self.rows
        kept = {rows[number][0]: s for number, s in leg.items() if number not in out}
        if len(kept) <= DEPTH:
            return kept
        return dict(heapq.nlargest(DEPTH, kept.items(), key=lambda pair: pair[1]))


def build(rows: Sequence[Row]) -> Few:
    """Return passages, which must be in the order of their ids."""
    return appended(Few(), rows)


def appended(few: Few, rows: Sequence[Row]) -> Few:
    """Return them with these too; their ids must be the highest."""
    every = [*few.rows, *rows]
    numbers = dict(few.numbers)
    words, windows = _Growing(few.words), _Growing(few.windows)
    for number, row in enumerate(rows, start=len(few.rows)):
        terms = _terms(row)
        words.add_text()
        words.add_terms(number, terms)
        place = large_corpus.place_of_row(row)
        if place != NOWHERE:
            windows.add_text()
            windows.add_terms(number, terms)
            for beside in (place - 1, place + 1):
                if (neighbour := numbers.get(beside)) is not None:
                    windows.add_terms(neighbour, terms)
                    windows.add_terms(number, _terms(every[neighbour]))
            numbers[place] = number
    spaces = _with_vectors(few, rows)
    return Few(tuple(every), words.build(), windows.build(), numbers, spaces)


def without(few: Few, ids: Sequence[int]) -> Few:
    """Return them with only those that have these ids."""
    kept = set(ids)
    return build([row for row in few.rows if row[0] in kept])


def _terms(row: Row) -> Counts:
    return Counter(np.frombuffer(row[4], HASH32).tolist())


def _with_vectors(few: Few, rows: Sequence[Row]) -> dict[Space, Vectors]:
    added: dict[Space, tuple[list[int], list[bytes]]] = {}
    for number, row in enumerate(rows, start=len(few.rows)):
        embedder, vector = row[5:]
        if vector is not None:
            space = embedder, len(vector) // FLOAT32.itemsize
            numbers, vectors = added.setdefault(space, ([], []))
            numbers.append(number)
            vectors.append(vector)
    spaces = dict(few.spaces)
    for space, (numbers, vectors) in added.items():
        matrix = np.frombuffer(b"".join(vectors), FLOAT32).reshape(-1, space[1])
        if (held := spaces.get(space)) is not None:
            numbers = [*held.numbers, *numbers]
            matrix = np.concatenate([held.matrix, matrix])
        spaces[space] = Vectors(numbers, matrix)
    return spaces


def _near(few: Few, question: Question) -> Scores:
    asked = question.embedded
    if asked is None:
        return {}
    vectors = few.spaces.get((asked.embedder, len(asked.vector)))
    if vectors is None:
        return {}
    floor = max(question.similarity_threshold, TINY)
    cosines = (vectors.matrix @ asked.vector).tolist()
    found = zip(vectors.numbers, cosines, strict=True)
    return {number: cosine for number, cosine in found if cosine >= floor}


EMPTY = Few()
