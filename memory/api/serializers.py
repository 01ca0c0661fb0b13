"""Memories as clients get them: one, a page, what a search found."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import Any

from api_base import pagination
from memory.facts import fact_serializers, public_ids
from memory.recall import fusion
from memory.recall.query_preparation import Prepared
from memory.types import FoundFact, FoundMessage, KnownFact, Saved, Score

Found = FoundFact | FoundMessage
LEGS = ("similarity", "terms", "window")


def page(facts: Sequence[KnownFact], *, has_more: bool) -> dict[str, Any]:
    """Return a page of memories."""
    return pagination.page(
        [fact_serializers.fact(fact) for fact in facts], has_more=has_more
    )


def saved(fact: KnownFact, saved: Saved) -> dict[str, Any]:
    """Return the memory that now says what was to be saved, and what became of it."""
    gone = saved.superseded
    return {
        **fact_serializers.fact(fact),
        "outcome": saved.outcome,
        "superseded": public_ids.write(gone) if gone else None,
    }


def found(
    facts: Sequence[FoundFact],
    messages: Sequence[FoundMessage],
    prepared: Prepared,
    *,
    limit: int,
    explain: bool,
) -> dict[str, Any]:
    """Return what was found, the best first; facts and messages take turns.

    Their scores are not on one scale. With `explain` each says what it was found by.
    """
    paired = chain.from_iterable(zip_longest(facts, messages))
    kept = [each for each in paired if each is not None]
    told = [_found(each) for each in kept[:limit]]
    answer = {
        "object": "list",
        "data": told,
        "has_more": len(kept) > limit,
        "embedding": prepared.embedding,
    }
    if explain:
        answer["explain"] = _settings(prepared)
        for each, known in zip(told, kept, strict=False):
            rivals = facts if isinstance(known, FoundFact) else messages
            each["explain"] = _reasons(known.score, [r.score for r in rivals])
    return answer


def _found(found: Found) -> dict[str, Any]:
    if isinstance(found, FoundFact):
        return {**fact_serializers.fact(found.fact), "score": found.score.total}
    return {
        "object": "message",
        "thread_id": found.thread or None,
        "position": found.position,
        "role": found.role,
        "content": found.text,
        "agent": found.agent or None,
        "importance": found.importance,
        "created_at": fact_serializers.seconds(found.created_at),
        "score": found.score.total,
    }


def _reasons(score: Score, rivals: Sequence[Score]) -> dict[str, Any]:
    """Return each leg's score, and its place among those found by that leg."""
    return {
        **{leg: getattr(score, leg) for leg in LEGS},
        "ranks": {leg: _rank(leg, score, rivals) for leg in LEGS},
    }


def _rank(leg: str, score: Score, rivals: Sequence[Score]) -> int | None:
    own = getattr(score, leg)
    if own is None:
        return None
    others = (getattr(rival, leg) for rival in rivals)
    return 1 + sum(1 for other in others if other is not None and other > own)


def _settings(prepared: Prepared) -> dict[str, Any]:
    query = prepared.query
    weighs = query.fusion == "weighted"
    return {
        "fusion": query.fusion,
        "embedder": query.embedded.embedder if query.embedded else None,
        "floor": query.similarity_threshold,
        "weights": {
            "facts": asdict(fusion.FACTS),
            "messages": asdict(fusion.MESSAGES),
        }
        if weighs
        else None,
    }
