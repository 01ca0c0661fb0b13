"""Lookup of a stored turn by its id, with its messages and earlier ones."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from core.ids import TurnId, UserId
from core.messages import Message, Role, ToolCall
from memory.models import StoredMessage
from memory.transcript.message_rows import request_fields, visible_message

MAX_TURN_MESSAGES = 500
"""Messages of one turn that users read; earlier ones are left out."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """The messages of a turn and before it."""

    earlier: Sequence[Message]
    """The messages before the turn, oldest first."""
    turn: Sequence[Message]
    """The messages of the turn before its reply."""
    reply: Message


def read_turn(
    user_id: UserId, turn_id: TurnId, *, earlier: int, max_messages: int
) -> PastTurn | None:
    """Return a turn of this user, or None.

    Includes up to `earlier` messages before it, without withheld ones, and up to
    `max_messages` of its own.
    The cost does not depend on the length of the thread.
    """
    reply = StoredMessage.objects.find_reply(user_id, turn_id)
    if reply is None:
        return None
    near = StoredMessage.objects.of_thread(reply.thread_id).before(reply.position + 1)
    rows = near.since(reply.position - earlier - max_messages)
    before: list[Message] = []
    own: list[Message] = []
    for row in rows.only("turn_id", "role", "text", "extra", "is_withheld"):
        if row.turn_id == turn_id:
            own.append(row.to_message())
        elif not row.is_withheld:
            before.append(row.to_message())
    return PastTurn(before[-earlier:], own[-max_messages - 1 : -1], own[-1])


@dataclass(frozen=True, slots=True)
class VisibleTurn:
    """A turn as its user may see it: without the calls of the agent's own tools."""

    turn_id: TurnId
    thread: str
    agent: str
    finish_reason: str
    created_at: datetime
    input: Sequence[tuple[int, Message]]
    """The messages before the reply, with their positions in the thread."""
    reply: Sequence[Message]
    """The messages of the reply."""
    request_fields: Mapping[str, Any]
    """The fields of the request that are stored with it."""

    @property
    def text(self) -> str:
        """The text of the reply, which may have several messages."""
        return "".join(each.text for each in self.reply if each.role == "assistant")

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the client's tools in the reply."""
        return tuple(call for message in self.reply for call in message.tool_calls)


def read_visible_turn(user_id: UserId, turn_id: TurnId) -> VisibleTurn | None:
    """Return a turn of this user that has a reply, or None."""
    return read_visible_turns(user_id, [turn_id]).get(turn_id)


def read_visible_turns(
    user_id: UserId, turn_ids: Collection[TurnId]
) -> Mapping[TurnId, VisibleTurn]:
    """Return those turns of this user that have a reply, in two queries."""
    replies = list(StoredMessage.objects.replies(user_id, turn_ids))
    if not replies:
        return {}
    messages = StoredMessage.objects.of_turns(replies, MAX_TURN_MESSAGES)
    by_turn = defaultdict(list)
    for row in messages:
        by_turn[row.turn_id].append(row)
    return {
        TurnId(reply.turn_id): _to_visible_turn(reply.thread.name, rows)
        for reply in replies
        if (rows := by_turn[reply.turn_id])
    }


def _to_visible_turn(thread: str, rows: Sequence[StoredMessage]) -> VisibleTurn:
    """Return the turn of messages whose last one is the reply."""
    reply = rows[-1]
    start = len(rows) - 1
    while start and rows[start - 1].is_of_own_tools:
        start -= 1
    seen = [
        (row.position, message)
        for row in rows
        if (message := visible_message(cast(Role, row.role), row.text, row.extra))
    ]
    first_of_reply = rows[start].position
    return VisibleTurn(
        TurnId(reply.turn_id),
        thread,
        reply.agent,
        reply.finish_reason,
        reply.created_at,
        [each for each in seen if each[0] < first_of_reply],
        [message for position, message in seen if position >= first_of_reply],
        request_fields(reply.extra),
    )
