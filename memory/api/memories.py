"""`/v1/memories`: what is known of a user, in the user's hands."""

import uuid
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.audit import audit_log
from access.audit.request_audit import deed
from access.users.request_user import IN_OPENAPI, CallerQuery, identify
from api_base.json_responses import json_response
from core.errors import Invalid
from core.ids import UserId
from database import database_executor
from memory.api import serializers
from memory.api.schemas import (
    DeletedMemory,
    FoundList,
    ListQuery,
    Memory,
    MemoryChanges,
    MemoryHistory,
    MemoryList,
    NewMemory,
    SavedMemory,
    SearchBody,
    SearchQuery,
)
from memory.errors import FactUnknown
from memory.extraction.injection import injection_filter
from memory.facts import fact_serializers, fact_store, public_ids
from memory.recall import query_preparation, search
from memory.types import FoundFact, FoundMessage

BY = "user"

router = Router(tags=["Memories"])


@router.get(
    "",
    summary="List memories, the newest first",
    response=MemoryList,
    openapi_extra=IN_OPENAPI,
)
async def list_memories(request: HttpRequest, asked: Query[ListQuery]) -> HttpResponse:
    user_id = identify(request, asked)
    page, has_more = await database_executor.run(
        fact_store.page,
        user_id,
        status=None if asked.status == "all" else asked.status,
        category=asked.category,
        source=asked.source,
        is_pinned=asked.pinned,
        as_of=asked.as_of,
        after=await _place(user_id, asked.after),
        limit=asked.limit,
    )
    return json_response(serializers.page(page, has_more=has_more))


async def _place(
    user_id: UserId, after: str | None
) -> tuple[datetime, uuid.UUID] | None:
    """Return where a page ends; raises `Invalid` for no memory of this user."""
    if after is None:
        return None
    try:
        last = await database_executor.run(
            fact_store.get, user_id, public_ids.require(after)
        )
    except FactUnknown as exc:
        raise Invalid(
            "'after' must be the last_id of the page before", param="after"
        ) from exc
    return last.created_at, last.id


@router.post(
    "",
    summary="Save a memory",
    response={201: SavedMemory},
    openapi_extra=IN_OPENAPI,
)
async def create_memory(
    request: HttpRequest, asked: Query[CallerQuery], body: Body[NewMemory]
) -> HttpResponse:
    user_id = identify(request, asked, body)
    draft = body.to_fact_draft("user", held_because=injection_filter.why_held(body.content, ""))
    vector = await query_preparation.embed(body.content)
    (saved,) = await database_executor.run_to_end(
        audit_log.recorded,
        query_preparation.telling_which(
            deed(request, "memory.create", user_id, "memory")
        ),
        fact_store.save,
        user_id,
        [draft],
        [vector.embedded],
        by=BY,
        threshold=query_preparation.threshold(),
        errors=[vector.error],
    )
    fact = await database_executor.run(fact_store.get, user_id, saved.fact_id)
    return json_response(serializers.saved(fact, saved), status=201)


# Before `{memory_id}`, which would take `search` for an id.


@router.get(
    "/search",
    summary="Search memories and past messages",
    response=FoundList,
    openapi_extra=IN_OPENAPI,
)
async def search_by_query(
    request: HttpRequest, asked: Query[SearchQuery]
) -> HttpResponse:
    user_id = identify(request, asked)
    given = asked.model_dump(exclude={"q", "safety_identifier"}, by_alias=True)
    return await _search(user_id, SearchBody(query=asked.q, **given))


@router.post(
    "/search",
    summary="Search memories and past messages",
    response=FoundList,
    openapi_extra=IN_OPENAPI,
)
async def search_by_body(
    request: HttpRequest, asked: Query[CallerQuery], body: Body[SearchBody]
) -> HttpResponse:
    return await _search(identify(request, asked, body), body)


async def _search(user_id: UserId, asked: SearchBody) -> HttpResponse:
    if asked.in_ == "messages" and asked.category is not None:
        raise Invalid(
            "'category' is for facts, messages have none: leave it out, or send "
            "'in': 'facts'",
            param="category",
        )
    prepared = await query_preparation.prepare(asked.query, fusion=asked.fusion)
    found: list[FoundFact] = []
    said: list[FoundMessage] = []
    if asked.in_ != "messages":
        found = await database_executor.run(
            search.facts,
            user_id,
            prepared.query,
            limit=asked.limit,
            category=asked.category,
        )
    if asked.in_ != "facts":
        said = await database_executor.run(
            search.messages, user_id, prepared.query, limit=asked.limit
        )
    told = serializers.found(
        found, said, prepared, limit=asked.limit, explain=asked.explain
    )
    return json_response(told)


@router.get(
    "/{memory_id}",
    summary="Show a memory",
    response=Memory,
    openapi_extra=IN_OPENAPI,
)
async def show_memory(
    request: HttpRequest, memory_id: str, asked: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify(request, asked)
    fact = await database_executor.run(
        fact_store.get, user_id, public_ids.require(memory_id)
    )
    return json_response(fact_serializers.fact(fact))


@router.patch(
    "/{memory_id}",
    summary="Change a memory",
    response=Memory,
    openapi_extra=IN_OPENAPI,
)
async def change_memory(
    request: HttpRequest,
    memory_id: str,
    asked: Query[CallerQuery],
    body: Body[MemoryChanges],
) -> HttpResponse:
    user_id = identify(request, asked, body)
    # Asked first, so that nobody has us embed for what is not theirs.
    fact = await database_executor.run(
        fact_store.get, user_id, public_ids.require(memory_id)
    )
    changes = body.changes()
    if injection_filter.why_held(changes.get("content", ""), ""):
        # As when it is saved: no prompt has it until a person says it may.
        changes.setdefault("status", "held")
    if changes:
        vector = await query_preparation.embed_again(fact.content, changes)
        was = fact.updated_at
        done = deed(request, "memory.change", user_id, memory_id, fields=[*changes])
        fact = await database_executor.run_to_end(
            audit_log.recorded,
            lambda now: done if now.updated_at != was else None,
            fact_store.edit,
            user_id,
            fact.id,
            changes,
            by=BY,
            reason=body.reason,
            embedded=vector.embedded,
            error=vector.error,
        )
    return json_response(fact_serializers.fact(fact))


@router.delete(
    "/{memory_id}",
    summary="Forget a memory",
    response=DeletedMemory,
    openapi_extra=IN_OPENAPI,
)
async def delete_memory(
    request: HttpRequest, memory_id: str, asked: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify(request, asked)
    fact_id = public_ids.require(memory_id)
    done = deed(request, "memory.delete", user_id, memory_id)
    await database_executor.run_to_end(
        audit_log.recorded,
        lambda is_new: done if is_new else None,
        fact_store.forget,
        user_id,
        fact_id,
        by=BY,
    )
    told = {
        "id": public_ids.write(fact_id),
        "object": "memory.deleted",
        "deleted": True,
    }
    return json_response(told)


@router.get(
    "/{memory_id}/history",
    summary="List all that happened to a memory, the oldest first",
    response=MemoryHistory,
    openapi_extra=IN_OPENAPI,
)
async def show_history(
    request: HttpRequest, memory_id: str, asked: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify(request, asked)
    steps = await database_executor.run(
        fact_store.history, user_id, public_ids.require(memory_id)
    )
    told = [fact_serializers.change(step) for step in steps]
    return json_response({"object": "list", "data": told, "has_more": False})
