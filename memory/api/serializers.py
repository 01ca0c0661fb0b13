"""Serializers of memories: single, page, and search results."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import Any

from api_base import pagination
from memory.facts import fact_serializers, public_ids
from memory.facts.types import SaveResult, StoredFact
from memory.recall import fusion
from memory.recall.query_preparation import PreparedQuery
from memory.recall.types import FactHit, MessageHit, SearchScore

SearchHit = FactHit | MessageHit
SCORE_NAMES = ("similarity", "terms", "window")


def serialize_page(facts: Sequence[StoredFact], *, has_more: bool) -> dict[str, Any]:
    """Return a page of memories."""
    return pagination.serialize_page(
        [fact_serializers.serialize_fact(fact) for fact in facts], has_more=has_more
    )


def serialize_saved(fact: StoredFact, saved: SaveResult) -> dict[str, Any]:
    """Return the memory that contains the saved fact, and the outcome."""
    superseded = saved.superseded
    return {
        **fact_serializers.serialize_fact(fact),
        "outcome": saved.outcome,
        "superseded": public_ids.format_fact_id(superseded) if superseded else None,
    }


def serialize_hits(
    facts: Sequence[FactHit],
    messages: Sequence[MessageHit],
    prepared: PreparedQuery,
    *,
    limit: int,
    explain: bool,
) -> dict[str, Any]:
    """Return search results, best first; facts and messages alternate.

    Their scores have different scales. `explain` adds the scores of each retriever.
    """
    paired = chain.from_iterable(zip_longest(facts, messages))
    results = [item for item in paired if item is not None]
    items = [_serialize_hit(item) for item in results[:limit]]
    answer = {
        "object": "list",
        "data": items,
        "has_more": len(results) > limit,
        "embedding": prepared.embedding,
    }
    if explain:
        answer["explain"] = _search_settings(prepared)
        for item, result in zip(items, results, strict=False):
            others = facts if isinstance(result, FactHit) else messages
            item["explain"] = _explain_scores(result.score, [r.score for r in others])
    return answer


def _serialize_hit(found: SearchHit) -> dict[str, Any]:
    if isinstance(found, FactHit):
        return {
            **fact_serializers.serialize_fact(found.fact),
            "score": found.score.total,
        }
    return {
        "object": "message",
        "thread_id": found.thread or None,
        "position": found.position,
        "role": found.role,
        "content": found.text,
        "agent": found.agent or None,
        "importance": found.importance,
        "created_at": fact_serializers.unix_seconds(found.created_at),
        "score": found.score.total,
    }


def _explain_scores(
    score: SearchScore, others: Sequence[SearchScore]
) -> dict[str, Any]:
    """Return the score of each retriever, and the rank among its results."""
    return {
        **{name: getattr(score, name) for name in SCORE_NAMES},
        "ranks": {name: _rank(name, score, others) for name in SCORE_NAMES},
    }


def _rank(name: str, score: SearchScore, others: Sequence[SearchScore]) -> int | None:
    own = getattr(score, name)
    if own is None:
        return None
    scores = (getattr(other, name) for other in others)
    return 1 + sum(1 for each in scores if each is not None and each > own)


def _search_settings(prepared: PreparedQuery) -> dict[str, Any]:
    query = prepared.query
    weighs = query.fusion == "weighted"
    return {
        "fusion": query.fusion,
        "embedder": query.embedded.embedder if query.embedded else None,
        "similarity_threshold": query.similarity_threshold,
        "weights": {
            "facts": asdict(fusion.FACT_WEIGHTS),
            "messages": asdict(fusion.MESSAGE_WEIGHTS),
        }
        if weighs
        else None,
    }
