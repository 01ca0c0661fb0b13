"""Conversations for operators: messages with their calls, costs and scores.

Messages come from memory, calls and costs from telemetry, scores from judges. Without a
telemetry record, the calls come from the transcript.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, TypeVar

from admin_base.model_admin import redact_row
from core.ids import UserId
from judges.models import Feedback, Score
from memory.facts import public_ids
from memory.models import AgentState, Fact, StoredMessage, Thread
from memory.transcript import conversation_queries
from studio.conversations.schemas import (
    MAX_TEXT_LENGTH,
    FactSummary,
    FailedTurn,
    MessageCall,
    MessageTurn,
    StoredState,
    ThreadMessage,
    ThreadMessageList,
)
from telemetry.models import ToolCall, Turn

Row = TypeVar("Row")

MAX_FAILED_TURNS = 50
MAX_STATES = 20


def load_messages(
    user_id: UserId, thread: Thread, *, before: int | None = None, limit: int = 40
) -> ThreadMessageList:
    """Return the newest messages of a thread, or those before a position.

    Turns that failed without a message are included. It takes eight queries, however
    long the conversation is.
    """
    rows, has_more = conversation_queries.list_messages(
        thread.pk, before=before, limit=limit
    )
    _attach_details(user_id, rows)
    # Messages of one turn are stored together, and clocks of processes differ.
    times = accumulate((row.created_at for row in rows), max)
    timed: list[tuple[datetime, Any]] = [
        (at, ThreadMessage.model_validate(row))
        for at, row in zip(times, rows, strict=True)
        if not row.is_step
    ]
    for turn in _failed_turns(user_id, thread.name, rows, before, has_more):
        timed.append((turn.started_at, FailedTurn.model_validate(turn)))
    timed.sort(key=lambda pair: pair[0])
    return ThreadMessageList(
        thread=thread,
        states=_load_states(thread),
        data=[each for _, each in timed],
        has_more=has_more,
        first_position=rows[0].position if rows else None,
    )


def _load_states(thread: Thread) -> list[StoredState]:
    rows = AgentState.objects.filter(thread=thread).order_by("agent")
    return [StoredState.model_validate(redact_row(row)) for row in rows[:MAX_STATES]]


def load_failed_turns(user_id: UserId) -> ThreadMessageList:
    """Return the failed turns of a user without a conversation."""
    turns = _failed_turns(user_id, None, (), None, has_more=False)
    data = [FailedTurn.model_validate(turn) for turn in reversed(turns)]
    return ThreadMessageList(
        thread=None, data=data, has_more=False, first_position=None
    )


def _attach_details(user_id: UserId, rows: Sequence[Any]) -> None:
    """Set what each message shows beside its content."""
    turn_ids = {row.turn_id for row in rows}
    turns = Turn.objects.filter(user_id=user_id).in_bulk(turn_ids)
    calls = _group(ToolCall.objects.load_top_level(turns, MAX_TEXT_LENGTH), "turn_id")
    scores = _group(Score.objects.of_turns(turn_ids), "turn_id")
    rated = Feedback.objects.filter(user_id=user_id, turn_id__in=turn_ids)
    feedback = {row.turn_id: row for row in rated}
    learned = Fact.objects.filter(user_id=user_id, message__in=rows)
    facts = _group(learned.order_by("created_at", "id"), "message_id")
    results = {row.tool_call_id: row.content for row in rows if row.tool_call_id}
    last = {row.turn_id: row for row in rows}
    own_calls: list[MessageCall] = []
    for row in rows:
        own_calls += [
            MessageCall(
                name=call.name, arguments=call.arguments, result=results.get(call.id)
            )
            for call in row.tool_calls
        ]
        row.extracted_facts = facts[row.pk]
        is_last = row is last[row.turn_id]
        # Calls and their results are part of the reply that they led to.
        row.is_step = not is_last and (
            row.role == "tool" or bool(row.tool_calls and not row.content)
        )
        if is_last:
            turn = turns.get(row.turn_id)
            row.turn = turn and MessageTurn.model_validate(turn)
            row.calls = calls[row.turn_id] or own_calls
            row.scores = scores[row.turn_id]
            row.feedback = feedback.get(row.turn_id)
            own_calls = []


def _group(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[getattr(row, name)].append(row)
    return groups


def recalled_facts(turn: Any) -> list[FactSummary]:
    """Return the facts that a turn recalled, in their current state, without deleted
    ones."""
    fact_ids = [
        fact_id
        for name in turn.recalled_fact_ids
        if (fact_id := public_ids.parse_fact_id(name))
    ]
    found = Fact.objects.filter(user_id=turn.user_id).in_bulk(fact_ids)
    return [
        FactSummary.model_validate(found[fact_id])
        for fact_id in fact_ids
        if fact_id in found
    ]


def _failed_turns(
    user_id: UserId,
    thread: str | None,
    rows: Sequence[StoredMessage],
    before: int | None,
    has_more: bool,
) -> list[Turn]:
    """Return the newest failed turns without messages, from the time of a page."""
    turns = Turn.objects.filter(user_id=user_id).failed().started_by_users()
    if thread is not None:
        turns = turns.filter(thread=thread)
    if rows and has_more:
        turns = turns.filter(started_at__gte=rows[0].created_at)
    if rows and before is not None:
        turns = turns.filter(started_at__lt=rows[-1].created_at)
    stored = {row.turn_id for row in rows}
    found = turns.newest_first()[:MAX_FAILED_TURNS]
    return [turn for turn in found if turn.pk not in stored]
