"""Turns that clients ask for later by an id: that of the turn, or of its task."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from django.db import transaction

from core.errors import Conflict, public_text
from core.events import (
    Event,
    FinishReason,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.ids import TurnId, UserId
from core.messages import Message
from memory.transcript import message_deletion, turn_lookup
from memory.transcript.turn_lookup import VisibleTurn
from tasks.models import OPEN, Task
from telemetry.models import Turn
from turns.agent_tasks import turn_payload


class TurnRunning(Conflict):
    """The response has not ended: cancel it first."""

    code = "turn_running"


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn, and the task that runs it, if it is a background turn."""

    id: uuid.UUID
    """The id that the client knows: of the task, if it is a background turn."""
    agent: str
    created_at: datetime
    turn: VisibleTurn | None
    """None while there is no reply."""
    usage: Usage | None = None
    """None if the turn is not recorded."""
    task_state: str | None = None
    """None if it is not a background turn."""
    error: str = ""
    """The message of a task's error."""
    ended_at: datetime | None = None
    request_fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the request that are stored with the turn."""
    payload_input: Sequence[tuple[int, Message]] = ()
    """What a task will reply to."""

    @property
    def is_open(self) -> bool:
        """Whether its task has not ended."""
        return self.turn is None and self.task_state in OPEN

    @property
    def input(self) -> Sequence[tuple[int, Message]]:
        """The messages before the reply, with their positions."""
        return self.payload_input if self.turn is None else self.turn.input

    def events(self) -> Iterator[Event]:
        """Yield the events of the reply, with all its text in one; none without it."""
        turn = self.turn
        if turn is None:
            return
        if turn.text:
            yield TextDelta(turn.text)
        for index, call in enumerate(turn.tool_calls):
            yield ToolCallDelta(index, call.id, call.name, call.arguments)
        yield TurnFinished(cast(FinishReason, turn.finish_reason), self.usage)


def read_turn(user_id: UserId, found: uuid.UUID) -> StoredTurn | None:
    """Return a user's turn by its own id or by that of its task, or None."""
    turn = read_turns(user_id, [TurnId(found)]).get(TurnId(found))
    if turn is not None:
        return turn
    task = _find_task(user_id, found)
    return None if task is None else _of_task(task)


def cancel_turn(user_id: UserId, task_id: uuid.UUID) -> StoredTurn | None:
    """Cancel a background turn, unless it has ended; None if it is unknown."""
    task = _find_task(user_id, task_id)
    if task is None:
        return None
    task.cancel()
    task.refresh_from_db()
    return _of_task(task)


def delete_turn(user_id: UserId, found: uuid.UUID) -> bool:
    """Delete the messages of a turn, and its task; return whether there was one.

    The record of the turn, with its cost, stays. Raises `TurnRunning`.
    """
    with transaction.atomic():
        task = _find_task(user_id, found)
        if task is not None and task.is_open:
            raise TurnRunning
        turn_id = found if task is None else task.turn_id
        is_known = task is not None
        if turn_id is not None:
            is_known |= message_deletion.delete_turn(user_id, TurnId(turn_id))
        if task is not None:
            task.delete()
    return is_known


def read_turns(
    user_id: UserId, turn_ids: Collection[TurnId]
) -> Mapping[TurnId, StoredTurn]:
    """Return a user's turns by their own ids; unknown ones are left out."""
    turns = turn_lookup.read_visible_turns(user_id, turn_ids)
    records = Turn.objects.in_bulk(list(turns))
    return {
        turn_id: _to_stored(turn_id, turn, records.get(turn_id))
        for turn_id, turn in turns.items()
    }


def _find_task(user_id: UserId, task_id: uuid.UUID) -> Task | None:
    """Return a task that was created as a whole turn, not as a prompt."""
    task = Task.objects.visible_to(user_id).filter(pk=task_id).first()
    return task if task and turn_payload.KEY in task.payload else None


def _to_stored(
    found: uuid.UUID, turn: VisibleTurn, record: Turn | None, state: str | None = None
) -> StoredTurn:
    return StoredTurn(
        found,
        turn.agent,
        turn.created_at if record is None else record.started_at,
        turn,
        None if record is None else record.usage,
        state,
        ended_at=turn.created_at,
        request_fields=turn.request_fields,
    )


def _of_task(task: Task) -> StoredTurn:
    if task.state == Task.State.DONE and task.turn_id is not None:
        turn = turn_lookup.read_visible_turn(task.user_id, TurnId(task.turn_id))
        if turn is not None:
            record = Turn.objects.filter(pk=turn.turn_id).first()
            return _to_stored(task.pk, turn, record, task.state)
    return StoredTurn(
        task.pk,
        task.agent,
        task.created_at,
        None,
        task_state=task.state,
        error=public_text(task.error),
        ended_at=task.finished_at,
        request_fields=turn_payload.read_stored_fields(task.payload),
        payload_input=list(enumerate(turn_payload.read_messages(task.payload))),
    )
