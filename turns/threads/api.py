"""`/v1/threads`: conversations of a user."""

from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter
from ninja import Body, Query, Router

from access.audit import audit_log
from access.audit.request_audit import build_event
from access.users.caller import caller_of
from access.users.list_queries import ListQuery, OrderedListQuery
from access.users.request_user import CallerQuery, identify_user
from agents.config import AGENTS
from agents.state.reducers import Fields, StateChange, reduce_state
from api_base import pagination
from api_base.encoded_slashes import NameConverter
from api_base.json_responses import json_response
from config import live
from core import ids
from core.errors import Invalid
from core.ids import TurnId, UserId
from core.messages import Message
from database import database_executor
from memory import memory_settings
from memory.errors import ThreadUnknown
from memory.extraction.extraction_tasks import ExtractionRequest
from memory.sessions import session_end
from memory.transcript import (
    agent_states,
    conversations,
    imported_turns,
    thread_deletion,
)
from memory.transcript.conversations import Conversation, ConversationMessage
from memory.transcript.imported_turns import ImportedMessage, ImportedTurns
from turns import idempotency
from turns.preparation import options, routing
from turns.preparation.options import DEFAULT_THREAD, TurnOptions
from turns.threads.schemas import (
    SESSION_PREFIX,
    DeletionQuery,
    DeletionRequested,
    NewMessages,
    SessionEnd,
    SessionList,
    SessionObject,
    StateChangeBody,
    ThreadChange,
    ThreadCounts,
    ThreadDeleted,
    ThreadList,
    ThreadMessage,
    ThreadMessageList,
    ThreadObject,
    ThreadState,
    ThreadStateQuery,
)

MAX_DIGITS = 19
"""Of a position in a thread, which databases store in 64 bits."""

NO_FEEDBACK: Any = SessionEnd()

# Slashes of a name may be encoded.
register_converter(NameConverter, "name")
router = Router(tags=["Threads"])


@router.get("", summary="List threads, most recently active first", response=ThreadList)
async def list_threads(request: HttpRequest, query: Query[ListQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    threads = await database_executor.run(
        conversations.list_page,
        user_id,
        after=None if query.after is None else _name(query.after),
        limit=query.limit + 1,
    )
    if threads is None:
        raise pagination.wrong_cursor()
    shown = [_serialize(thread).model_dump() for thread in threads]
    return json_response(pagination.cut_page(shown, query.limit))


# A name may contain slashes. So the longer addresses come first.


@router.get(
    "/{name:thread_id}/messages",
    summary="List the messages of a thread",
    response=ThreadMessageList,
)
async def list_messages(
    request: HttpRequest, thread_id: str, query: Query[OrderedListQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    name = (await _find(user_id, thread_id)).name
    start = await _position(user_id, name, query.after)
    # The first one is the last of the previous page.
    messages = await database_executor.run(
        conversations.read_page,
        user_id,
        name,
        start=start,
        is_descending=query.order == "desc",
        limit=query.limit + 2,
    )
    listed = [each for each in messages if each.position != start]
    shown = list(map(_serialize_message, listed))
    return json_response(pagination.cut_page(shown, query.limit))


@router.post(
    "/{name:thread_id}/messages",
    summary="Add turns that happened elsewhere",
    response={200: ThreadMessageList, 201: ThreadMessageList},
    openapi_extra={
        "parameters": [
            idempotency.describe_header(
                "A unique text for each import. A repeated request with the same key "
                "adds nothing."
            ),
        ]
    },
)
async def add_messages(
    request: HttpRequest,
    thread_id: str,
    query: Query[CallerQuery],
    body: Body[NewMessages],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    config = live.current()
    allowed = caller_of(request).agents
    routing.check_name(config, body.agent, allowed=allowed, param="agent")
    _check_order(body)
    memory = memory_settings.resolve_for_agent(config, body.agent)
    learns = body.learn and memory.user_memory is not None
    read = options.read_options({"thread_id": thread_id})
    imported = ImportedTurns(
        options.for_agent(config, body.agent, read).thread,
        body.agent,
        [
            ImportedMessage(Message(each.role, each.content), each.created_at)
            for each in body.messages
        ],
        idempotency.read_key(request),
    )
    turn_ids, is_new = await database_executor.run_to_end(
        imported_turns.store_turns,
        user_id,
        imported,
        memory.settings,
        ExtractionRequest(
            body.agent, opens_session=memory.settings.sessions is not None
        )
        if learns
        else None,
    )
    added = await database_executor.run(conversations.read_turns, user_id, turn_ids)
    page = [_serialize_message(each) for each in added]
    return json_response(
        pagination.serialize_page(page, has_more=False), status=201 if is_new else 200
    )


@router.post(
    "/{name:thread_id}/end",
    summary="End the session of a thread",
    response=SessionObject,
)
async def end_session(
    request: HttpRequest,
    thread_id: str,
    query: Query[CallerQuery],
    body: Body[SessionEnd] = NO_FEEDBACK,
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    name = _name(thread_id)
    if body.agent is not None:
        allowed = caller_of(request).agents
        routing.check_name(live.current(), body.agent, allowed=allowed, param="agent")
        name = _name_for(thread_id, body.agent)
    session = await database_executor.run_to_end(
        session_end.end_with_feedback,
        user_id,
        name,
        score=body.score,
        comment=body.comment,
    )
    return json_response(SessionObject.model_validate(session))


@router.get(
    "/{name:thread_id}/sessions",
    summary="List the ended sessions of a thread, the last first",
    response=SessionList,
)
async def list_sessions(
    request: HttpRequest, thread_id: str, query: Query[ListQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    sessions = await database_executor.run(
        session_end.list_page,
        user_id,
        _name(thread_id),
        after=_session_id(query.after),
        limit=query.limit + 1,
    )
    if sessions is None:
        raise pagination.wrong_cursor()
    shown = [SessionObject.model_validate(each).model_dump() for each in sessions]
    return json_response(pagination.cut_page(shown, query.limit))


@router.get(
    "/{name:thread_id}/state",
    summary="Show the state of an agent in a thread",
    response=ThreadState,
)
async def show_state(
    request: HttpRequest, thread_id: str, query: Query[ThreadStateQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    fields = _find_fields(request, query.agent)
    row = await database_executor.run(
        agent_states.read, user_id, _name_for(thread_id, query.agent), query.agent
    )
    return json_response(ThreadState.of(thread_id, row, fields))


@router.patch(
    "/{name:thread_id}/state",
    summary="Change the state of an agent in a thread",
    response=ThreadState,
)
async def change_state(
    request: HttpRequest,
    thread_id: str,
    query: Query[CallerQuery],
    body: Body[StateChangeBody],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    fields = _find_fields(request, body.agent)
    change = StateChange(body.changes, body.reset)
    row = await database_executor.run_to_end(
        agent_states.change,
        user_id,
        _name_for(thread_id, body.agent),
        body.agent,
        partial(reduce_state, fields, change=change),
    )
    return json_response(ThreadState.of(thread_id, row, fields))


@router.get("/{name:thread_id}", summary="Show a thread", response=ThreadObject)
async def show_thread(
    request: HttpRequest, thread_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    return json_response(_serialize(await _find(user_id, thread_id)))


@router.patch(
    "/{name:thread_id}", summary="Change the title of a thread", response=ThreadObject
)
async def change_thread(
    request: HttpRequest,
    thread_id: str,
    query: Query[CallerQuery],
    body: Body[ThreadChange],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    name = (await _find(user_id, thread_id)).name
    await database_executor.run_to_end(
        conversations.set_title, user_id, name, body.title
    )
    return json_response(_serialize(await _find(user_id, thread_id)))


@router.delete(
    "/{name:thread_id}",
    summary="Delete a thread, after confirmation",
    response={200: ThreadDeleted, 202: DeletionRequested},
)
async def delete_thread(
    request: HttpRequest, thread_id: str, query: Query[DeletionQuery]
) -> HttpResponse:
    user_id, name = identify_user(request, query), _name(thread_id)
    forgets_facts = query.facts == "forget"
    if query.confirmation is None:
        pending = await database_executor.run(
            thread_deletion.request_deletion,
            user_id,
            name,
            forgets_facts=forgets_facts,
        )
        requested = DeletionRequested(
            id=thread_id,
            confirmation=pending.confirmation,
            expires_at=pending.expires_at,
            would_delete=ThreadCounts(**asdict(pending.would_delete)),
        )
        return json_response(requested, status=202)
    facts = 0
    if forgets_facts:
        facts = await database_executor.run_to_end(
            thread_deletion.forget_facts, user_id, name, query.confirmation
        )
    deleted = await database_executor.run_to_end(
        audit_log.run_recorded,
        build_event(request, "thread.delete", user_id, thread_id, facts=query.facts),
        thread_deletion.confirm_deletion,
        user_id,
        name,
        query.confirmation,
        forgets_facts=forgets_facts,
    )
    counts = ThreadCounts(**{**asdict(deleted), "facts": deleted.facts + facts})
    return json_response(ThreadDeleted(id=thread_id, deleted=counts))


def _session_id(after: str | None) -> UUID | None:
    """Return the id of the session that a page follows; raises `Invalid`."""
    if after is None:
        return None
    session_id = ids.parse_uuid(after.removeprefix(SESSION_PREFIX))
    if session_id is None:
        raise pagination.wrong_cursor()
    return session_id


def _name(thread_id: str) -> str:
    """Return the name of a thread in an address; that of the default one is empty."""
    return "" if thread_id == DEFAULT_THREAD else thread_id


def _name_for(thread_id: str, agent: str) -> str:
    """Return the name of the thread that an agent means by an address."""
    named = TurnOptions(thread=_name(thread_id))
    return options.for_agent(live.current(), agent, named).thread


def _find_fields(request: HttpRequest, agent: str) -> Fields:
    """Return the fields of an agent's state.

    Raises `AgentUnknown`, and `Invalid` for an agent without a state.
    """
    config = live.current()
    allowed = caller_of(request).agents
    routing.check_name(config, agent, allowed=allowed, param="agent")
    found = config.get(AGENTS).get(agent)
    if found is None or not found.state:
        raise Invalid(
            f"'{agent}' has no state",
            param="agent",
            code="no_state",
            detail="declare it as 'state' of the agent",
        )
    return found.state


async def _find(user_id: UserId, thread_id: str) -> Conversation:
    """Return a thread; raises `ThreadUnknown`."""
    found = await database_executor.run(conversations.find, user_id, _name(thread_id))
    if found is None:
        raise ThreadUnknown
    return found


def _serialize(thread: Conversation) -> ThreadObject:
    return ThreadObject(
        id=thread.name or DEFAULT_THREAD,
        title=thread.title,
        metadata=dict(thread.metadata),
        created_at=thread.created_at,
        updated_at=thread.updated_at,
    )


def _serialize_message(found: ConversationMessage) -> dict[str, Any]:
    message = found.message
    calls = [call.serialize() for call in message.tool_calls]
    return ThreadMessage(
        id=f"{found.turn_id.hex}-{found.position}",
        role=message.role,
        content=message.content,
        name=message.name,
        tool_calls=calls or None,
        tool_call_id=message.tool_call_id,
        agent=found.agent,
        completion_id=ids.format_completion_id(found.turn_id),
        created_at=found.created_at,
    ).model_dump()


async def _position(user_id: UserId, name: str, after: str | None) -> int | None:
    """Return the position of the message that a page follows; raises `Invalid`."""
    if after is None:
        return None
    turn, _, position = after.rpartition("-")
    turn_id = ids.parse_uuid(turn)
    if turn_id is not None and position.isdecimal() and len(position) < MAX_DIGITS:
        found = await database_executor.run(
            conversations.find_message, user_id, name, TurnId(turn_id), int(position)
        )
        if found is not None:
            return found.position
    raise pagination.wrong_cursor()


def _check_order(body: NewMessages) -> None:
    """Raise `Invalid` unless the messages are whole turns."""
    if (body.messages[0].role, body.messages[-1].role) != ("user", "assistant"):
        raise Invalid(
            "the messages must begin with one of the user and end with a reply: send "
            "whole turns",
            param="messages",
        )
