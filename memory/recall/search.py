"""Search in a user's messages and facts, by words and vectors.

Each function takes the user and searches only that user's data. See docs/search.md for
the method and its quality.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from django.db import connection

from core.ids import UserId
from memory.facts.types import Category, Status, StoredFact
from memory.recall import fusion, passage_sources
from memory.recall.fusion import RetrieverWeights
from memory.recall.index import numpy_index, postgres_index
from memory.recall.index.retrieval_types import (
    FactFilter,
    ParsedQuery,
    RetrieverScores,
    SparseRetrieverScores,
    parse_query,
)
from memory.recall.types import (
    Embedded,
    FoundFact,
    FoundMessage,
    Fusion,
    Query,
    SearchScore,
)

Index = numpy_index.NumpyIndex | postgres_index.PostgresIndex
MessageCutoff = tuple[int, int] | None
T = TypeVar("T")


def search_facts(
    user_id: UserId,
    query: Query,
    *,
    limit: int,
    category: Category | None = None,
    status: Status | None = "active",
) -> list[FoundFact]:
    """Return the facts that fit a query best, best first.

    By default, only facts that are active and currently valid; `status=None` means any
    searchable fact.
    """
    question = parse_query(query)
    if question.is_empty or limit < 1:
        return []
    among = FactFilter(category, status)
    return _search_facts(user_id, open_index(user_id), question, query, among, limit)


def search_messages(
    user_id: UserId, query: Query, *, limit: int, beyond: MessageCutoff = None
) -> list[FoundMessage]:
    """Return the past messages that fit a query best, best first.

    `beyond`, a thread's id and a position, excludes that thread's messages from that
    position on: the prompt already contains them.
    """
    question = parse_query(query)
    if question.is_empty or limit < 1:
        return []
    return _search_messages(
        user_id, open_index(user_id), question, query, beyond, limit
    )


def search_facts_and_messages(
    user_id: UserId,
    query: Query,
    *,
    facts: int,
    messages: int,
    beyond: MessageCutoff = None,
) -> tuple[list[FoundFact], list[FoundMessage]]:
    """Return the results of `search_facts` and `search_messages` in one pass."""
    question = parse_query(query)
    if question.is_empty or max(facts, messages) < 1:
        return [], []
    index = open_index(user_id)
    return (
        _search_facts(user_id, index, question, query, FactFilter(), facts),
        _search_messages(user_id, index, question, query, beyond, messages),
    )


def nearest_facts(
    user_id: UserId, embedded: Embedded, *, limit: int
) -> list[tuple[uuid.UUID, float]]:
    """Return active facts with their cosine similarity to a vector, nearest first."""
    question = ParsedQuery([], embedded, 0.0)
    wanted = _SearchPlan(
        lambda index: index.facts(question, FactFilter()),
        fusion.FACT_WEIGHTS,
        lambda found: passage_sources.load_facts(user_id, found),
        lambda fact: fact.status == "active",
        limit,
    )
    found = _run_search(user_id, open_index(user_id), wanted)
    return [(fact.id, score.similarity or 0.0) for fact, score in found]


def open_index(user_id: UserId, *, anew: bool = False) -> Index:
    """Return the user's index; `anew` ignores cached passages."""
    if connection.vendor == "postgresql":
        return postgres_index.PostgresIndex(user_id)
    return numpy_index.NumpyIndex(user_id, anew=anew)


@dataclass(frozen=True, slots=True)
class _SearchPlan(Generic[T]):
    """What to search for."""

    retrieve: Callable[[Index], RetrieverScores | SparseRetrieverScores]
    weights: RetrieverWeights
    fetch: Callable[[Sequence[int]], dict[int, T]]
    """Loads the objects behind passages, without deleted ones."""
    is_match: Callable[[T], bool]
    limit: int
    fusion: Fusion = "weighted"


def _search_facts(
    user_id: UserId,
    index: Index,
    question: ParsedQuery,
    query: Query,
    among: FactFilter,
    limit: int,
) -> list[FoundFact]:
    wanted = _SearchPlan(
        lambda index: index.facts(question, among),
        fusion.FACT_WEIGHTS,
        lambda found: passage_sources.load_facts(user_id, found),
        partial(_fact_matches, among, datetime.now(UTC)),
        limit,
        query.fusion,
    )
    return [FoundFact(*found) for found in _run_search(user_id, index, wanted)]


def _search_messages(
    user_id: UserId,
    index: Index,
    question: ParsedQuery,
    query: Query,
    beyond: MessageCutoff,
    limit: int,
) -> list[FoundMessage]:
    wanted = _SearchPlan(
        lambda index: index.messages(question, beyond),
        fusion.MESSAGE_WEIGHTS,
        lambda found: passage_sources.load_messages(user_id, found),
        lambda _: True,
        limit,
        query.fusion,
    )
    found = _run_search(user_id, index, wanted)
    return [FoundMessage(*fields, score) for fields, score in found]


def _run_search(
    user_id: UserId, index: Index, wanted: _SearchPlan[T]
) -> list[tuple[T, SearchScore]]:
    if wanted.limit < 1:
        return []
    found, gone = _collect_top(index, wanted)
    if gone and len(found) < wanted.limit:
        found, _ = _collect_top(open_index(user_id, anew=True), wanted)
    return found


def _collect_top(
    index: Index, wanted: _SearchPlan[T]
) -> tuple[list[tuple[T, SearchScore]], bool]:
    """Return the best valid results, and whether some were deleted meanwhile."""
    ranking = fusion.fuse(wanted.retrieve(index), wanted.weights, wanted.fusion)
    kept: list[tuple[T, SearchScore]] = []
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


def _fact_matches(among: FactFilter, now: datetime, fact: StoredFact) -> bool:
    if among.category is not None and fact.category != among.category:
        return False
    if among.status is None:
        return True
    if fact.status != among.status:
        return False
    return among.status != "active" or fact.is_valid_at(now)
