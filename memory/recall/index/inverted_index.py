"""An inverted index in arrays: the texts that contain a term, and its frequency."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.recall.index.term_encoding import HASH32

K1 = 1.2
"""BM25's k1: how fast repetitions of a term saturate."""
B = 0.75
"""BM25's b: how strongly text length counts. Both have their usual values."""

SHIFT = np.uint64(32)
LOW = np.uint64(0xFFFF_FFFF)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TermHits:
    term: Ints
    """The index of the term in the query."""
    text: Ints
    """The number of the text."""
    count: Floats
    """The term's frequency in the text."""

    def select(self, mask: NDArray[np.bool_]) -> "TermHits":
        return TermHits(self.term[mask], self.text[mask], self.count[mask])


@dataclass(frozen=True, slots=True)
class Postings:
    """Sorted pairs of a term's hash and a text's number, with frequencies."""

    pairs: NDArray[np.uint64]
    """The hash in the upper half, the number in the lower."""
    counts: Floats

    @property
    def nbytes(self) -> int:
        return self.pairs.nbytes + self.counts.nbytes

    def find(self, hashes: NDArray[np.uint32]) -> TermHits:
        terms = hashes.astype(np.uint64) << SHIFT
        first = self.pairs.searchsorted(terms)
        sizes = self.pairs.searchsorted(terms | LOW, side="right") - first
        ends = sizes.cumsum()
        indexes = np.repeat(first - ends + sizes, sizes) + np.arange(ends[-1])
        return TermHits(
            np.repeat(np.arange(len(terms)), sizes),
            (self.pairs[indexes] & LOW).astype(np.int64),
            self.counts[indexes],
        )


def build_postings(texts: Sequence[bytes]) -> Postings:
    """Index texts, given as the hashes of their terms, numbered from 0."""
    hashes = np.frombuffer(b"".join(texts), dtype=HASH32).astype(np.uint64)
    sizes = count_terms(texts)
    numbers = np.arange(len(texts), dtype=np.uint64)
    pairs = np.sort(hashes << SHIFT | np.repeat(numbers, sizes))
    starts = np.flatnonzero(np.diff(pairs, prepend=pairs[:1] - np.uint64(1)))
    counts = np.diff(starts, append=len(pairs)).astype(np.float32)
    return Postings(pairs[starts], counts)


def concatenate_hits(one: TermHits, other: TermHits) -> TermHits:
    """Return the hits of both, which must be of different texts."""
    return TermHits(
        np.concatenate([one.term, other.term]),
        np.concatenate([one.text, other.text]),
        np.concatenate([one.count, other.count]),
    )


def shift_numbers(postings: Postings, by: int) -> Postings:
    """Return the postings with all text numbers increased by `by`."""
    return Postings(postings.pairs + np.uint64(by), postings.counts)


def count_terms(texts: Sequence[bytes]) -> Ints:
    return np.fromiter(map(len, texts), np.int64, len(texts)) // HASH32.itemsize


def merge_postings(one: Postings, other: Postings) -> Postings:
    """Return the merged postings; their texts must have different numbers."""
    pairs = np.concatenate([one.pairs, other.pairs])
    order = np.argsort(pairs, kind="stable")
    return Postings(pairs[order], np.concatenate([one.counts, other.counts])[order])


def renumber(postings: Postings, numbers: Ints) -> Postings:
    """Return the postings with new text numbers; -1 removes a text.

    The new numbers must have the order of the old ones.
    """
    new = numbers[(postings.pairs & LOW).astype(np.int64)]
    kept = new >= 0
    terms = postings.pairs[kept] & ~LOW
    return Postings(terms | new[kept].astype(np.uint64), postings.counts[kept])


def idf(texts: int, having: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the inverse document frequency of terms, given how many texts have
    them."""
    return np.log1p((texts - having + 0.5) / (having + 0.5))
