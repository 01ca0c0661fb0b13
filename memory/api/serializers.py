"""The responses of `/v1/memories`: single memories, pages, and search results."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import Any

from memory.api.schemas import (
    MemoryList,
    MemoryObject,
    MemorySearchResult,
    MessageSearchResult,
    SavedMemory,
    SearchResultList,
)
from memory.facts.types import SaveResult
from memory.recall import fusion
from memory.recall.query_preparation import PreparedQuery
from memory.recall.search import FactHit
from memory.recall.types import MessageHit, SearchScore

SearchHit = FactHit | MessageHit
SCORE_NAMES = ("similarity", "terms", "window")


def memory_page(facts: Sequence[Any], *, has_more: bool) -> MemoryList:
    data = [MemoryObject.model_validate(fact) for fact in facts]
    return MemoryList.of(data, has_more=has_more)


def saved_memory(fact: Any, saved: SaveResult) -> SavedMemory:
    """Return the fact that contains the saved one, and the outcome."""
    content = MemoryObject.model_validate(fact).model_dump()
    outcome = {"outcome": saved.outcome, "superseded": saved.superseded}
    return SavedMemory.model_validate({**content, **outcome})


def search_results(
    facts: Sequence[FactHit],
    messages: Sequence[MessageHit],
    prepared: PreparedQuery,
    *,
    limit: int,
    explain: bool,
) -> SearchResultList:
    """Return search results, best first; facts and messages alternate.

    Their scores have different scales. `explain` adds the scores of each retriever.
    """
    paired = chain.from_iterable(zip_longest(facts, messages))
    results = [item for item in paired if item is not None]
    items = [_search_result(item) for item in results[:limit]]
    if explain:
        for item, result in zip(items, results, strict=False):
            others = facts if isinstance(result, FactHit) else messages
            item.explain = _explain_scores(result.score, [r.score for r in others])
    return SearchResultList(
        data=items,
        has_more=len(results) > limit,
        embedding=prepared.embedding,
        explain=_search_settings(prepared) if explain else None,
    )


def _search_result(found: SearchHit) -> MemorySearchResult | MessageSearchResult:
    if isinstance(found, FactHit):
        fact = MemoryObject.model_validate(found.fact).model_dump()
        return MemorySearchResult(**fact, score=found.score.total)
    return MessageSearchResult.model_validate(found)


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
