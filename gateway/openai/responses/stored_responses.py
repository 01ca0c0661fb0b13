"""Stored responses, from their turns.

A response has no table of its own. Its messages are in the transcript, and its usage in
the record of its turn. The id of a background response is that of its task.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from core import ids
from core.errors import Invalid
from core.events import FinishReason
from core.ids import TurnId, UserId
from core.messages import Message
from database import database_executor
from gateway.openai.errors import ResponseUnknown
from gateway.openai.responses import (
    conversation_items,
    output_items,
    request_echo,
    response_object,
)
from gateway.openai.responses.response_object import ResponseHead, Status
from memory.transcript import turn_lookup
from memory.transcript.turn_lookup import VisibleTurn
from turns import stored_turns
from turns.stored_turns import StoredTurn

MAX_REFERENCES = 500

TASK_STATUS: dict[str, Status] = {
    "queued": "queued",
    "running": "in_progress",
    "done": "completed",
    "errored": "failed",
    "cancelled": "cancelled",
}
"""The status of a background response without a reply."""


class ResponseNotCancellable(Invalid):
    """Only background responses can be cancelled."""

    code = "response_not_cancellable"


def parse_id(response_id: str) -> uuid.UUID | None:
    """Return the id of a turn or task; None if it is not that of a stored response."""
    if not response_id.startswith(ids.RESPONSE_PREFIX):
        return None
    return ids.parse_uuid(response_id, prefix=ids.RESPONSE_PREFIX)


async def read(user_id: UserId, response_id: str) -> StoredTurn:
    """Return the turn of a response; raises `ResponseUnknown`."""
    found, stored = parse_id(response_id), None
    if found is not None:
        stored = await database_executor.run(stored_turns.read_turn, user_id, found)
    if stored is None:
        raise ResponseUnknown(response_id)
    return stored


async def cancel(user_id: UserId, response_id: str) -> StoredTurn:
    """Cancel a background response, and return its turn.

    Raises `ResponseUnknown` and `ResponseNotCancellable`.
    """
    stored = await read(user_id, response_id)
    if stored.task_state is None:
        raise ResponseNotCancellable
    cancelled = await database_executor.run_to_end(
        stored_turns.cancel_turn, user_id, stored.id
    )
    if cancelled is None:
        raise ResponseUnknown(response_id)
    return cancelled


async def delete(user_id: UserId, response_id: str) -> dict[str, Any]:
    """Delete a response, and return what OpenAI returns then.

    Raises `ResponseUnknown`, and `TurnRunning` for a background response.
    """
    found = parse_id(response_id)
    if found is None or not await database_executor.run_to_end(
        stored_turns.delete_turn, user_id, found
    ):
        raise ResponseUnknown(response_id)
    return {"id": response_id, "object": "response.deleted", "deleted": True}


def serialize(stored: StoredTurn) -> dict[str, Any]:
    """Return a stored response."""
    head = head_of(stored)
    if stored.turn is not None:
        return _serialize_reply(head, stored, stored.turn)
    status = TASK_STATUS[stored.task_state or "done"]
    if status == "completed":
        # The model has said nothing.
        return response_object.finished(head, "stop", [], None, _end(stored))
    error = _error(stored.error) if status == "failed" else None
    return head.to_response(status, error=error)


def head_of(stored: StoredTurn) -> ResponseHead:
    """Return the fields that a stored response has before its reply."""
    return ResponseHead(
        TurnId(stored.id),
        stored.agent,
        {
            **request_echo.DEFAULTS,
            **stored.request_fields,
            "background": stored.task_state is not None,
        },
        created_at=int(stored.created_at.timestamp()),
    )


def _serialize_reply(
    head: ResponseHead, stored: StoredTurn, turn: VisibleTurn
) -> dict[str, Any]:
    def items(status: str) -> list[dict[str, Any]]:
        return output_items.items_of_stored(
            turn.turn_id, turn.text, turn.tool_calls, status
        )

    match turn.finish_reason:
        case "cancelled":
            return head.to_response("cancelled", items("incomplete"), stored.usage)
        case "error":
            return head.to_response(
                "failed",
                items("incomplete"),
                stored.usage,
                error=_error("The response broke off."),
            )
    reason = cast(FinishReason, turn.finish_reason)
    status = response_object.item_status(reason)
    return response_object.finished(
        head, reason, items(status), stored.usage, _end(stored)
    )


def _end(stored: StoredTurn) -> int:
    return int((stored.ended_at or stored.created_at).timestamp())


def _error(message: str) -> dict[str, str]:
    return {"code": "server_error", "message": message}


def input_items(stored: StoredTurn) -> list[dict[str, Any]]:
    """Return the items that a response replied to."""
    turn_id = TurnId(stored.id) if stored.turn is None else stored.turn.turn_id
    return list(conversation_items.items_of_input(turn_id, stored.input))


async def read_items(user_id: UserId, item_ids: Sequence[str]) -> Mapping[str, Message]:
    """Return the messages behind item ids; unknown ones are left out."""
    parsed = {
        text: item for text in item_ids if (item := output_items.parse_item_id(text))
    }
    turn_ids = {item.turn_id for item in parsed.values()}
    if not turn_ids:
        return {}
    if len(turn_ids) > MAX_REFERENCES:
        raise Invalid(
            f"input refers to items of more than {MAX_REFERENCES} responses",
            param="input",
        )
    turns = await database_executor.run(
        turn_lookup.read_visible_turns, user_id, turn_ids
    )
    found = {
        text: conversation_items.find_message(item, turns[item.turn_id])
        for text, item in parsed.items()
        if item.turn_id in turns
    }
    return {text: message for text, message in found.items() if message is not None}
