"""Chat completions made with `store: true`, which their client can list and change.

The messages of a completion are in the transcript, and its usage in the record of its
turn.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationInfo, model_validator

from access.users import request_user
from access.users.list_queries import OrderedListQuery
from access.users.request_user import CallerBody
from api_base import pagination
from api_base.field_types import Metadata
from api_base.pagination import PageQuery
from core import ids
from core.ids import TurnId, UserId
from core.messages import Message
from core.reply import Reply
from database import database_executor
from gateway.openai import serializers
from gateway.openai.errors import CompletionUnknown
from gateway.openai.serializers import ObjectHead
from turns import stored_completions
from turns.stored_completions import CompletionTurn
from turns.stored_turns import StoredTurn

T = TypeVar("T")


class CompletionMessagesQuery(OrderedListQuery):
    """The query of lists, whose oldest comes first by default."""

    order: Literal["asc", "desc"] = "asc"


class CompletionsQuery(CompletionMessagesQuery):
    """Query of the list of completions."""

    model: str | None = Field(default=None, description="The agent.")
    metadata: Metadata = Field(
        default={}, description="Values that they have: `metadata[key]=value`."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_metadata(cls, data: Any, info: ValidationInfo) -> Any:
        # Ninja knows only the names of fields.
        query = info.context["request"].GET if info.context else {}
        return {**data, "metadata": request_user.read_map(query, "metadata")}


class CompletionChange(CallerBody):
    """Body of a change."""

    metadata: Metadata | None


async def read(user_id: UserId, completion_id: str) -> CompletionTurn:
    """Return the turn of a completion; raises `CompletionUnknown`."""
    return await _run(stored_completions.read, user_id, completion_id)


async def change(
    user_id: UserId, completion_id: str, metadata: Mapping[str, str] | None
) -> CompletionTurn:
    """Replace a completion's metadata; raises `CompletionUnknown`."""
    return await _run(
        stored_completions.set_metadata, user_id, completion_id, metadata or {}
    )


async def delete(user_id: UserId, completion_id: str) -> dict[str, Any]:
    """Delete a completion with its messages; raises `CompletionUnknown`."""
    await _run(stored_completions.delete, user_id, completion_id)
    return {
        "id": completion_id,
        "object": "chat.completion.deleted",
        "deleted": True,
    }


async def _run(
    function: Callable[..., T | None], user_id: UserId, completion_id: str, *args: Any
) -> T:
    turn_id = _parse_id(completion_id)
    if turn_id is not None:
        found = await database_executor.run_to_end(function, user_id, turn_id, *args)
        if found is not None:
            return found
    raise CompletionUnknown(completion_id)


def _parse_id(completion_id: str) -> TurnId | None:
    if not completion_id.startswith(ids.COMPLETION_PREFIX):
        return None
    found = ids.parse_uuid(completion_id, prefix=ids.COMPLETION_PREFIX)
    return None if found is None else TurnId(found)


async def list_completions(user_id: UserId, query: CompletionsQuery) -> dict[str, Any]:
    """Return a page of a user's completions."""
    after = await pagination.resolve_cursor(
        user_id, query.after, parse_id=_parse_id, find=stored_completions.find_cursor
    )
    turns = await database_executor.run(
        partial(
            stored_completions.read_page,
            user_id,
            agent=query.model,
            metadata=query.metadata,
            after=after,
            is_descending=query.order == "desc",
            limit=query.limit + 1,
        )
    )
    return pagination.cut_page(list(map(serialize, turns)), query.limit)


def serialize(completion: CompletionTurn) -> dict[str, Any]:
    """Return a stored completion."""
    head = ObjectHead(
        ids.format_completion_id(completion.turn.id),
        int(completion.turn.created_at.timestamp()),
        completion.turn.agent,
    )
    serialized = serializers.serialize_completion(head, _to_reply(completion.turn))
    return {**serialized, "metadata": completion.metadata}


def serialize_messages(completion: CompletionTurn, query: PageQuery) -> dict[str, Any]:
    """Return a page of the messages that a completion replied to."""
    completion_id = ids.format_completion_id(completion.turn.id)
    shown = [
        {"id": f"{completion_id}-{number}", **_serialize_message(message)}
        for number, (_, message) in enumerate(completion.turn.input)
    ]
    return pagination.select_page(shown, query)


def _to_reply(stored: StoredTurn) -> Reply:
    reply = Reply()
    for event in stored.events():
        reply.add(event)
    return reply


def _serialize_message(message: Message) -> dict[str, Any]:
    parts = message.content
    serialized = {
        "role": message.role,
        "content": message.text or None,
        "name": message.name,
        "content_parts": None if isinstance(parts, str) else parts,
        "refusal": None,
    }
    if message.tool_calls:
        serialized["tool_calls"] = serializers.serialize_calls(message.tool_calls)
    if message.tool_call_id is not None:
        serialized["tool_call_id"] = message.tool_call_id
    return serialized
