"""Finding what a user said, and what is known of them, by words and by meaning.

Each function takes the user it works for and finds nothing of anyone else's. How, and
how well, is told in docs/search.md.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from django.db import connection

from core.ids import UserId
from memory.recall import fusion, passage_sources
from memory.recall.fusion import Weights
from memory.recall.index import numpy_index, postgres_index
from memory.recall.index.retrieval_types import (
    Among,
    Found,
    Legs,
    Question,
    question_of,
)
from memory.types import (
    Category,
    Embedded,
    FoundFact,
    FoundMessage,
    Fusion,
    KnownFact,
    Query,
    Score,
    Status,
)

Index = numpy_index.Index | postgres_index.Index
Beyond = tuple[int, int] | None
T = TypeVar("T")


def facts(
    user_id: UserId,
    query: Query,
    *,
    limit: int,
    category: Category | None = None,
    status: Status | None = "active",
) -> list[FoundFact]:
    """Return the facts that fit a query best, the best first.

    Active ones that are so now, by default; `status=None` is any that can be found.
    """
    question = question_of(query)
    if question.is_empty or limit < 1:
        return []
    among = Among(category, status)
    return _facts(user_id, open_index(user_id), question, query, among, limit)


def messages(
    user_id: UserId, query: Query, *, limit: int, beyond: Beyond = None
) -> list[FoundMessage]:
    """Return the past messages that fit a query best, the best first.

    `beyond`, a thread's id and a position, leaves out that thread's messages from
    there on: they are in the prompt already.
    """
    question = question_of(query)
    if question.is_empty or limit < 1:
        return []
    return _messages(user_id, open_index(user_id), question, query, beyond, limit)


def both(
    user_id: UserId,
    query: Query,
    *,
    facts: int,
    messages: int,
    beyond: Beyond = None,
) -> tuple[list[FoundFact], list[FoundMessage]]:
    """Return what `facts` and `messages` do, at most so many of each, in one go."""
    question = question_of(query)
    if question.is_empty or max(facts, messages) < 1:
        return [], []
    index = open_index(user_id)
    return (
        _facts(user_id, index, question, query, Among(), facts),
        _messages(user_id, index, question, query, beyond, messages),
    )


def nearest_facts(
    user_id: UserId, embedded: Embedded, *, limit: int
) -> list[tuple[uuid.UUID, float]]:
    """Return active facts with their cosine to a vector, the nearest first."""
    question = Question([], embedded, 0.0)
    wanted = _Wanted(
        lambda index: index.facts(question, Among()),
        fusion.FACTS,
        lambda found: passage_sources.facts(user_id, found),
        lambda fact: fact.status == "active",
        limit,
    )
    found = _find(user_id, open_index(user_id), wanted)
    return [(fact.id, score.similarity or 0.0) for fact, score in found]


def open_index(user_id: UserId, *, anew: bool = False) -> Index:
    """Return the user's index; with `anew`, nothing held of it is trusted."""
    if connection.vendor == "postgresql":
        return postgres_index.Index(user_id)
    return numpy_index.Index(user_id, anew=anew)


@dataclass(frozen=True, slots=True)
class _Wanted(Generic[T]):
    """What is looked for."""

    retrieve: Callable[[Index], Legs | Found]
    weights: Weights
    fetch: Callable[[Sequence[int]], dict[int, T]]
    """Returns by passage what is behind it, leaving out what is gone."""
    is_match: Callable[[T], bool]
    limit: int
    fusion: Fusion = "weighted"


def _facts(
    user_id: UserId,
    index: Index,
    question: Question,
    query: Query,
    among: Among,
    limit: int,
) -> list[FoundFact]:
    wanted = _Wanted(
        lambda index: index.facts(question, among),
        fusion.FACTS,
        lambda found: passage_sources.facts(user_id, found),
        partial(_counts, among, datetime.now(UTC)),
        limit,
        query.fusion,
    )
    return [FoundFact(*found) for found in _find(user_id, index, wanted)]


def _messages(
    user_id: UserId,
    index: Index,
    question: Question,
    query: Query,
    beyond: Beyond,
    limit: int,
) -> list[FoundMessage]:
    wanted = _Wanted(
        lambda index: index.messages(question, beyond),
        fusion.MESSAGES,
        lambda found: passage_sources.messages(user_id, found),
        lambda _: True,
        limit,
        query.fusion,
    )
    found = _find(user_id, index, wanted)
    return [FoundMessage(*fields, score) for fields, score in found]


def _find(user_id: UserId, index: Index, wanted: _Wanted[T]) -> list[tuple[T, Score]]:
    if wanted.limit < 1:
        return []
    found, gone = _first(index, wanted)
    if gone and len(found) < wanted.limit:
        found, _ = _first(open_index(user_id, anew=True), wanted)
    return found


def _first(index: Index, wanted: _Wanted[T]) -> tuple[list[tuple[T, Score]], bool]:
    """Return the first that count, and whether some are gone from the database."""
    ranking = fusion.ranking(wanted.retrieve(index), wanted.weights, wanted.fusion)
    kept: list[tuple[T, Score]] = []
    gone = False
    for start in range(0, len(ranking), wanted.limit):
        ranks = range(start, min(start + wanted.limit, len(ranking)))
        ids = [ranking.id_at(rank) for rank in ranks]
        there = wanted.fetch(ids)
        gone = gone or len(there) < len(ids)
        kept += [
            (there[number], ranking.score_at(rank))
            for number, rank in zip(ids, ranks, strict=True)
            if number in there and wanted.is_match(there[number])
        ]
        if len(kept) >= wanted.limit:
            break
    return kept[: wanted.limit], gone


def _counts(among: Among, now: datetime, fact: KnownFact) -> bool:
    if among.category is not None and fact.category != among.category:
        return False
    if among.status is None:
        return True
    if fact.status != among.status:
        return False
    return among.status != "active" or fact.is_valid_at(now)
