"""One user's passages of one kind, in arrays.

A corpus is immutable: `append_rows` and `keep_only` return a new one that shares
arrays, so one thread can read it while another builds the next. New passages form a
small part until merging is worthwhile, so a new message is cheap to add.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.models.fields import FLOAT32
from memory.recall.index import inverted_index
from memory.recall.index.inverted_index import K1, B, Floats, Ints, Postings

MIN_MERGED = 256
"""New passages are merged if there are more than this,"""
MERGED_SHARE = 16
"""and more than 1/n of all passages."""
DEAD_SHARE = 4
"""Removed passages are dropped from 1/n of all passages on."""
THREAD_COLUMN = 1
"""The index of the thread in a row."""
NO_MESSAGE = -1
"""The key of passages that are not messages."""

Bools = NDArray[np.bool_]

EMPTY_NUMBERS: Ints = np.empty(0, np.int64)
EMPTY_FLOATS: Floats = np.empty(0, np.float32)


PassageRow = tuple[int, int | None, int | None, bool, bytes, str, bytes | None]
"""A row of a passage: id, thread, position, whether it is only a question, terms,
embedder and vector. A fact has neither thread nor position."""


class VectorBlock(NamedTuple):
    """Vectors of one embedder."""

    numbers: Ints
    """The numbers of their passages."""
    matrix: Floats


VectorSpace = tuple[str, int]
"""An embedder and its dimensions."""


@dataclass(frozen=True, slots=True)
class LargeCorpus:
    """Passages, numbered from 0 in the order of their ids."""

    ids: Ints
    message_keys: Ints
    questions: Bools
    lengths: Floats
    alive: Bools
    merged_postings: Postings
    recent_postings: Postings
    merged: int
    """How many passages `merged_postings` covers."""
    spaces: dict[VectorSpace, tuple[VectorBlock, ...]]
    """At most two blocks each: old and new."""
    # Derived from the other fields:
    previous: Ints = field(default_factory=lambda: EMPTY_NUMBERS)
    """The number of the preceding message; the count of passages means none."""
    following: Ints = field(default_factory=lambda: EMPTY_NUMBERS)
    norms: Floats = field(default_factory=lambda: EMPTY_FLOATS)
    """BM25's length normalization of each text."""
    window_norms: Floats = field(default_factory=lambda: EMPTY_FLOATS)
    live_count: int = 0
    """The number of passages that are not removed."""

    @property
    def nbytes(self) -> int:
        parts = [self.ids, self.message_keys, self.questions, self.lengths, self.alive]
        parts += [self.previous, self.following, self.norms, self.window_norms]
        parts += [a for space in self.spaces.values() for block in space for a in block]
        return (
            self.merged_postings.nbytes
            + self.recent_postings.nbytes
            + sum(part.nbytes for part in parts)
        )


def message_key(thread_id: int, position: int) -> int:
    """Return the key of a message; the keys of neighbours differ by one."""
    return (thread_id << 32) + position


def message_key_of_row(row: PassageRow) -> int:
    """Return the key of a row's message, or `NO_MESSAGE` for a fact."""
    _, thread_id, position, *_ = row
    if thread_id is None or position is None:
        return NO_MESSAGE
    return message_key(thread_id, position)


def build_corpus(rows: Sequence[PassageRow]) -> LargeCorpus:
    """Return a corpus of rows, which must be ordered by id."""
    columns = zip(*rows, strict=True) if rows else [()] * 7
    ids, _, _, questions, texts, embedders, vectors = columns
    return _with_derived_fields(
        LargeCorpus(
            np.array(ids, np.int64),
            np.fromiter(map(message_key_of_row, rows), np.int64, len(rows)),
            np.array(questions, np.bool_),
            inverted_index.count_terms(texts).astype(np.float32),
            np.ones(len(rows), np.bool_),
            inverted_index.build_postings(texts),
            NO_POSTINGS,
            len(rows),
            {
                space: (block,)
                for space, block in _build_blocks(embedders, vectors).items()
            },
        )
    )


def append_rows(corpus: LargeCorpus, rows: Sequence[PassageRow]) -> LargeCorpus:
    """Return a corpus with these rows added; their ids must be the highest."""
    count = len(corpus.ids)
    added = build_corpus(rows)
    grown = replace(
        corpus,
        ids=np.concatenate([corpus.ids, added.ids]),
        message_keys=np.concatenate([corpus.message_keys, added.message_keys]),
        questions=np.concatenate([corpus.questions, added.questions]),
        lengths=np.concatenate([corpus.lengths, added.lengths]),
        alive=np.concatenate([corpus.alive, added.alive]),
        recent_postings=inverted_index.merge_postings(
            corpus.recent_postings,
            inverted_index.shift_numbers(added.merged_postings, count),
        ),
        spaces=_with_blocks(corpus, added),
    )
    return _with_derived_fields(_compact(grown))


def keep_only(corpus: LargeCorpus, ids: Ints) -> LargeCorpus:
    alive = corpus.alive & np.isin(corpus.ids, ids)
    return _with_derived_fields(_compact(replace(corpus, alive=alive)))


def _with_derived_fields(corpus: LargeCorpus) -> LargeCorpus:
    before, after = _neighbours(corpus)
    lengths = np.append(corpus.lengths, np.float32(0))
    window_lengths = corpus.lengths + lengths[before] + lengths[after]
    return replace(
        corpus,
        previous=before,
        following=after,
        norms=_norms(corpus.lengths, corpus.alive),
        window_norms=_norms(window_lengths, corpus.alive),
        live_count=int(np.count_nonzero(corpus.alive)),
    )


def _norms(lengths: Floats, alive: Bools) -> Floats:
    live_lengths = lengths[alive]
    mean_length = max(float(live_lengths.mean()), 1.0) if len(live_lengths) else 1.0
    norms: Floats = (K1 * (1 - B + B / mean_length * lengths)).astype(np.float32)
    return norms


def _neighbours(corpus: LargeCorpus) -> tuple[Ints, Ints]:
    count = len(corpus.ids)
    before = np.full(count, count, np.int64)
    after = before.copy()
    present = np.flatnonzero(corpus.alive & (corpus.message_keys != NO_MESSAGE))
    # A stable sort is fast on almost sorted data.
    order = present[np.argsort(corpus.message_keys[present], kind="stable")]
    adjacent = np.flatnonzero(np.diff(corpus.message_keys[order]) == 1)
    after[order[adjacent]] = order[adjacent + 1]
    before[order[adjacent + 1]] = order[adjacent]
    return before, after


def _compact(corpus: LargeCorpus) -> LargeCorpus:
    """Merge new passages and drop removed ones, if there are enough of them."""
    count = len(corpus.ids)
    fresh, dead = count - corpus.merged, count - int(corpus.alive.sum())
    if fresh <= max(MIN_MERGED, count // MERGED_SHARE) and dead <= max(
        MIN_MERGED, count // DEAD_SHARE
    ):
        return corpus
    alive = corpus.alive
    numbers = np.where(alive, np.cumsum(alive) - 1, -1)
    whole = inverted_index.merge_postings(
        corpus.merged_postings, corpus.recent_postings
    )
    return LargeCorpus(
        corpus.ids[alive],
        corpus.message_keys[alive],
        corpus.questions[alive],
        corpus.lengths[alive],
        corpus.alive[alive],
        inverted_index.renumber(whole, numbers),
        NO_POSTINGS,
        count - dead,
        {
            space: (merged,)
            for space, blocks in corpus.spaces.items()
            if len((merged := _renumber_block(_join_blocks(blocks), numbers)).numbers)
        },
    )


def _renumber_block(block: VectorBlock, numbers: Ints) -> VectorBlock:
    new = numbers[block.numbers]
    return VectorBlock(new[new >= 0], block.matrix[new >= 0])


def _join_blocks(blocks: Sequence[VectorBlock]) -> VectorBlock:
    if len(blocks) == 1:
        return blocks[0]
    return VectorBlock(
        np.concatenate([block.numbers for block in blocks]),
        np.concatenate([block.matrix for block in blocks]),
    )


def _build_blocks(
    embedders: Sequence[str], vectors: Sequence[bytes | None]
) -> dict[VectorSpace, VectorBlock]:
    found: dict[VectorSpace, tuple[list[int], list[bytes]]] = {}
    for number, vector in enumerate(vectors):
        if vector is not None:
            space = embedders[number], len(vector) // FLOAT32.itemsize
            numbers, vectors_of_space = found.setdefault(space, ([], []))
            numbers.append(number)
            vectors_of_space.append(vector)
    return {
        space: VectorBlock(
            np.array(numbers, np.int64),
            np.frombuffer(b"".join(vectors_of_space), FLOAT32).reshape(
                len(numbers), space[1]
            ),
        )
        for space, (numbers, vectors_of_space) in found.items()
    }


def _with_blocks(
    corpus: LargeCorpus, added: LargeCorpus
) -> dict[VectorSpace, tuple[VectorBlock, ...]]:
    grown = dict(corpus.spaces)
    for space, ((numbers, matrix),) in added.spaces.items():
        blocks = grown.get(space, ())
        old = [block for block in blocks if block.numbers[0] < corpus.merged]
        new = [block for block in blocks if block.numbers[0] >= corpus.merged]
        block = VectorBlock(numbers + len(corpus.ids), matrix)
        grown[space] = (*old, _join_blocks([*new, block]))
    return grown


NO_POSTINGS = inverted_index.build_postings([])
EMPTY = build_corpus([])
