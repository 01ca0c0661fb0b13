"""`/v1/memories`: users read and edit the facts about them."""

from collections.abc import Callable
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.audit import audit_log
from access.audit.request_audit import build_event
from access.users.request_user import CallerQuery, identify_user
from api_base import pagination
from api_base.json_responses import json_response
from core.errors import Invalid
from core.ids import UserId
from database import database_executor
from memory.api import serializers
from memory.api.schemas import (
    DeletedMemory,
    DeletionQuery,
    MemoriesQuery,
    MemoryChange,
    MemoryChanges,
    MemoryHistory,
    MemoryList,
    MemoryObject,
    MemoryReview,
    MemorySearchBody,
    MemorySearchQuery,
    NewMemory,
    ReviewBody,
    ReviewedMemories,
    SavedMemory,
    SearchResultList,
)
from memory.facts import (
    candidates,
    fact_store,
    fact_validation,
    forgetting,
    public_ids,
)
from memory.recall import query_preparation, search

ACTOR = "user"

router = Router(tags=["Memories"])


@router.get("", summary="List memories, newest first", response=MemoryList)
async def list_memories(
    request: HttpRequest, query: Query[MemoriesQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    after = await pagination.resolve_cursor(
        user_id,
        query.after,
        parse_id=public_ids.parse_fact_id,
        find=fact_store.find_cursor,
    )
    page, has_more = await database_executor.run(
        fact_store.page_facts,
        user_id,
        status=None if query.status == "all" else query.status,
        category=query.category,
        source=query.source,
        is_pinned=query.pinned,
        as_of=query.as_of,
        after=after,
        limit=query.limit,
    )
    return json_response(serializers.memory_page(page, has_more=has_more))


@router.post("", summary="Save a memory", response={201: SavedMemory})
async def create_memory(
    request: HttpRequest, query: Query[CallerQuery], body: Body[NewMemory]
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    reason = fact_validation.find_review_reason(body.category, body.content)
    draft = body.to_fact_draft("user", review_reason=reason)
    vector = await query_preparation.embed_fact(body.content, body.category)
    (saved,) = await database_executor.run_to_end(
        audit_log.run_recorded,
        query_preparation.with_saved_fact(
            build_event(request, "memory.create", user_id, "memory")
        ),
        fact_store.save_drafts,
        user_id,
        [draft],
        [vector.embedded],
        by=ACTOR,
        threshold=query_preparation.dedup_threshold(),
        errors=[vector.error],
    )
    fact = await database_executor.run(fact_store.get_fact, user_id, saved.fact_id)
    return json_response(serializers.saved_memory(fact, saved), status=201)


# Registered before `{memory_id}`, which would take `search` for an id.


@router.get("/review", summary="Count the memories to review", response=MemoryReview)
async def show_review(request: HttpRequest, query: Query[CallerQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    counts = await database_executor.run(candidates.count_held, user_id)
    return json_response(MemoryReview.of(counts))


@router.post(
    "/review",
    summary="Accept or reject memories that are pending review",
    response=ReviewedMemories,
)
async def review_memories(
    request: HttpRequest, query: Query[CallerQuery], body: Body[ReviewBody]
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    accepted, rejected = await database_executor.run(
        candidates.choose, user_id, body.to_decisions()
    )
    done = set()
    for fact_id in rejected:
        if await _decide(request, "memory.delete", candidates.reject, user_id, fact_id):
            done.add(fact_id)
    for fact_id in accepted:
        if await _decide(request, "memory.change", candidates.accept, user_id, fact_id):
            done.add(fact_id)
    counts = await database_executor.run(candidates.count_held, user_id)
    return json_response(
        ReviewedMemories.of(
            counts,
            accepted=[fact_id for fact_id in accepted if fact_id in done],
            rejected=[fact_id for fact_id in rejected if fact_id in done],
            unknown=[each for each in (*accepted, *rejected) if each not in done],
        )
    )


async def _decide(
    request: HttpRequest,
    action: str,
    decide: Callable[..., object],
    user_id: UserId,
    fact_id: UUID,
) -> object:
    """Carry out one decision; return something false if the fact was not held.

    In a transaction of its own, because others wait.
    """
    target = public_ids.format_fact_id(fact_id)
    event = build_event(request, action, user_id, target, is_review=True)
    return await database_executor.run_to_end(
        audit_log.run_recorded,
        lambda is_done: event if is_done else None,
        decide,
        user_id,
        fact_id,
        by=ACTOR,
    )


@router.get(
    "/search", summary="Search memories and past messages", response=SearchResultList
)
async def search_by_query(
    request: HttpRequest, query: Query[MemorySearchQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    given = query.model_dump(exclude={"q", "safety_identifier"}, by_alias=True)
    return await _search(user_id, MemorySearchBody(query=query.q, **given))


@router.post(
    "/search", summary="Search memories and past messages", response=SearchResultList
)
async def search_by_body(
    request: HttpRequest, query: Query[CallerQuery], body: Body[MemorySearchBody]
) -> HttpResponse:
    return await _search(identify_user(request, query, body), body)


async def _search(user_id: UserId, query: MemorySearchBody) -> HttpResponse:
    if query.in_ == "messages" and query.category is not None:
        raise Invalid(
            "'category' applies only to facts: remove it, or send 'in': 'facts'",
            param="category",
        )
    prepared = await query_preparation.prepare_query(query.query, fusion=query.fusion)
    facts, messages = await database_executor.run(
        search.search_facts_and_messages,
        user_id,
        prepared.query,
        facts=0 if query.in_ == "messages" else query.limit,
        messages=0 if query.in_ == "facts" else query.limit,
        category=query.category,
    )
    content = serializers.search_results(
        facts, messages, prepared, limit=query.limit, explain=query.explain
    )
    return json_response(content)


@router.get("/{memory_id}", summary="Show a memory", response=MemoryObject)
async def show_memory(
    request: HttpRequest, memory_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    fact = await database_executor.run(
        fact_store.get_fact, user_id, public_ids.require_fact_id(memory_id)
    )
    return json_response(MemoryObject.model_validate(fact))


@router.patch("/{memory_id}", summary="Change a memory", response=MemoryObject)
async def change_memory(
    request: HttpRequest,
    memory_id: str,
    query: Query[CallerQuery],
    body: Body[MemoryChanges],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    # Read first, so that no embedding is made for another user's fact.
    fact = await database_executor.run(
        fact_store.get_fact, user_id, public_ids.require_fact_id(memory_id)
    )
    changes = body.changes()
    text = {"content": fact.content, "category": fact.category, **changes}
    is_new_text = not changes.keys().isdisjoint({"content", "category"})
    if is_new_text and fact_validation.find_review_reason(
        text["category"], text["content"]
    ):
        # As on saving: prompts do not contain it until a person activates it.
        changes.setdefault("status", "pending_review")
        if changes["status"] == "pending_review":
            changes["held_for"] = "injection"
    if changes:
        vector = await query_preparation.embed_changed_fact(fact, changes)
        event = build_event(
            request, "memory.change", user_id, memory_id, fields=[*changes]
        )
        await database_executor.run_to_end(
            audit_log.run_recorded,
            lambda is_changed: event if is_changed else None,
            fact.edit,
            changes,
            by=ACTOR,
            reason=body.reason,
            text=vector,
        )
    return json_response(MemoryObject.model_validate(fact))


@router.delete("/{memory_id}", summary="Delete a memory", response=DeletedMemory)
async def delete_memory(
    request: HttpRequest, memory_id: str, query: Query[DeletionQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    fact_id = public_ids.require_fact_id(memory_id)
    details = {"purge": True} if query.purge else {}
    event = build_event(request, "memory.delete", user_id, memory_id, **details)
    await database_executor.run_to_end(
        audit_log.run_recorded,
        lambda is_new: event if is_new or query.purge else None,
        forgetting.forget,
        user_id,
        fact_id,
        by=ACTOR,
        purge=query.purge,
    )
    return json_response(DeletedMemory.model_validate({"id": fact_id}))


@router.get(
    "/{memory_id}/history",
    summary="List the changes of a memory, oldest first",
    response=MemoryHistory,
)
async def show_history(
    request: HttpRequest, memory_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    steps = await database_executor.run(
        fact_store.list_changes, user_id, public_ids.require_fact_id(memory_id)
    )
    return json_response(
        MemoryHistory(data=[MemoryChange.model_validate(step) for step in steps])
    )
