"""Search in a user's messages and facts, by words and vectors.

Each function takes the user and searches only that user's data. See docs/search.md for
the method and its quality.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from django.db import connection

from config import live
from core.ids import UserId
from memory import memory_settings
from memory.config import USER_SCOPE
from memory.errors import RecallOff
from memory.facts.types import AnyCategory, Status
from memory.models import Fact, Owner, StoredMessage
from memory.recall import fusion
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
    Fusion,
    MessageHit,
    Query,
    SearchScore,
)
from telemetry.types import Diagnostics

Index = numpy_index.NumpyIndex | postgres_index.PostgresIndex
MessageCutoff = tuple[int, int] | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FactHit:
    fact: Fact
    score: SearchScore


def search_facts(
    user_id: UserId,
    query: Query,
    *,
    limit: int,
    category: AnyCategory | None = None,
    status: Status | None = "active",
    scope: str | None = None,
) -> list[FactHit]:
    """Return the facts that fit a query best, best first.

    By default, only facts that are active and currently valid; `status=None` means any
    searchable fact, `scope=None` facts of any scope.
    """
    parsed = parse_query(query)
    if parsed.is_empty or limit < 1:
        return []
    fact_filter = FactFilter(category, status, scope)
    return _search_facts(
        user_id, open_index(user_id), parsed, query, fact_filter, limit
    )


def search_messages(
    user_id: UserId,
    query: Query,
    *,
    limit: int,
    cutoff: MessageCutoff = None,
    scope: str | None = None,
) -> list[MessageHit]:
    """Return the past messages that fit a query best, best first.

    `cutoff`, a thread's id and a position, excludes that thread's messages from that
    position on: the prompt already contains them.
    """
    parsed = parse_query(query)
    if parsed.is_empty or limit < 1:
        return []
    index = open_index(user_id)
    return _search_messages(user_id, index, parsed, query, (cutoff, scope), limit)


def search_facts_and_messages(
    user_id: UserId,
    query: Query,
    *,
    facts: int,
    messages: int,
    cutoff: MessageCutoff = None,
    category: AnyCategory | None = None,
    scope: str | None = None,
    diagnostics: Diagnostics | None = None,
) -> tuple[list[FactHit], list[MessageHit]]:
    """Return the results of `search_facts` and `search_messages` in one pass.

    `facts` and `messages` are their limits; 0 does not search them. `diagnostics` gets
    how they were searched.
    """
    parsed = parse_query(query)
    if parsed.is_empty or max(facts, messages) < 1:
        return [], []
    index = open_index(user_id)
    if diagnostics is not None:
        diagnostics.recall = parsed.path
        diagnostics.corpus = index.size
        if parsed.embedded is not None:
            diagnostics.embedder = parsed.embedded.embedder
    fact_filter = FactFilter(category, scope=scope)
    return (
        _search_facts(user_id, index, parsed, query, fact_filter, facts),
        _search_messages(user_id, index, parsed, query, (cutoff, scope), messages),
    )


def search_for_agent(
    user_id: UserId,
    query: Query,
    *,
    facts: int,
    messages: int,
    category: AnyCategory | None = None,
    scope: str | None = None,
) -> tuple[list[FactHit], list[MessageHit]]:
    """Return the results of `search_facts_and_messages`; raises `RecallOff`."""
    if not Owner.objects.of_user(user_id).is_recall_on:
        raise RecallOff
    return search_facts_and_messages(
        user_id, query, facts=facts, messages=messages, category=category, scope=scope
    )


def nearest_facts(
    user_id: UserId, embedded: Embedded, *, limit: int, scope: str = USER_SCOPE
) -> list[tuple[uuid.UUID, float]]:
    """Return active facts with their cosine similarity to a vector, nearest first.

    Episodes are left out: no fact repeats or supersedes them.
    """
    parsed = ParsedQuery([], embedded, 0.0)
    plan = _SearchPlan(
        lambda index: index.facts(parsed, _prefilter(FactFilter(scope=scope))),
        fusion.FACT_WEIGHTS,
        lambda found: Fact.objects.by_passage(user_id, found),
        lambda fact: (
            fact.status == "active"
            and fact.category != "episode"
            and fact.scope == scope
        ),
        limit,
    )
    found = _run_search(user_id, open_index(user_id), plan)
    return [(fact.id, score.similarity or 0.0) for fact, score in found]


def open_index(user_id: UserId, *, reload: bool = False) -> Index:
    """Return the user's index; `reload` ignores cached passages."""
    if connection.vendor == "postgresql":
        return postgres_index.PostgresIndex(user_id)
    return numpy_index.NumpyIndex(user_id, reload=reload)


@dataclass(frozen=True, slots=True)
class _SearchPlan(Generic[T]):
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
    parsed: ParsedQuery,
    query: Query,
    fact_filter: FactFilter,
    limit: int,
) -> list[FactHit]:
    plan = _SearchPlan(
        lambda index: index.facts(parsed, _prefilter(fact_filter)),
        fusion.FACT_WEIGHTS,
        lambda found: Fact.objects.by_passage(user_id, found),
        partial(_fact_matches, fact_filter, datetime.now(UTC)),
        limit,
        query.fusion,
    )
    return [FactHit(*found) for found in _run_search(user_id, index, plan)]


def _search_messages(
    user_id: UserId,
    index: Index,
    parsed: ParsedQuery,
    query: Query,
    condition: tuple[MessageCutoff, str | None],
    limit: int,
) -> list[MessageHit]:
    cutoff, scope = condition
    plan = _SearchPlan(
        lambda index: index.messages(parsed, cutoff, _index_scope(scope)),
        fusion.MESSAGE_WEIGHTS,
        lambda found: StoredMessage.objects.by_passage(user_id, found),
        lambda message: scope in (None, message.scope),
        limit,
        query.fusion,
    )
    found = _run_search(user_id, index, plan)
    for message, score in found:
        message.score = score
    return [message for message, _ in found]


def _run_search(
    user_id: UserId, index: Index, plan: _SearchPlan[T]
) -> list[tuple[T, SearchScore]]:
    if plan.limit < 1:
        return []
    found, is_stale = _collect_top(index, plan)
    if is_stale and len(found) < plan.limit:
        found, _ = _collect_top(open_index(user_id, reload=True), plan)
    return found


def _collect_top(
    index: Index, plan: _SearchPlan[T]
) -> tuple[list[tuple[T, SearchScore]], bool]:
    """Return the best valid results, and whether some were deleted meanwhile."""
    ranking = fusion.fuse(plan.retrieve(index), plan.weights, plan.fusion)
    results: list[tuple[T, SearchScore]] = []
    is_stale = False
    for start in range(0, len(ranking), plan.limit):
        ranks = range(start, min(start + plan.limit, len(ranking)))
        ids = [ranking.id_at(rank) for rank in ranks]
        loaded = plan.fetch(ids)
        is_stale = is_stale or len(loaded) < len(ids)
        results += [
            (loaded[number], ranking.score_at(rank))
            for number, rank in zip(ids, ranks, strict=True)
            if number in loaded and plan.is_match(loaded[number])
        ]
        if len(results) >= plan.limit:
            break
    return results[: plan.limit], is_stale


def _prefilter(fact_filter: FactFilter) -> FactFilter:
    return replace(fact_filter, scope=_index_scope(fact_filter.scope))


def _index_scope(scope: str | None) -> str | None:
    """Return the scope that an index looks for; None is any.

    Without narrow scopes nearly all has the widest, and the rest is left out later.
    """
    if scope != USER_SCOPE:
        return scope
    config = live.current_or_none()
    has_narrow = config is not None and memory_settings.has_narrow_scopes(config)
    return scope if has_narrow else None


def _fact_matches(fact_filter: FactFilter, now: datetime, fact: Fact) -> bool:
    if fact_filter.category not in (None, fact.category):
        return False
    if fact_filter.scope not in (None, fact.scope):
        return False
    return fact_filter.status is None or fact.is_shown_at(now, fact_filter.status)
