"""Conversations for operators: messages with their calls, costs and scores.

Messages come from memory, calls and costs from telemetry, scores from judges. Without a
telemetry record, the calls come from the transcript.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any
from uuid import UUID

from core.ids import UserId
from core.messages import ToolCall
from core.text import redaction
from judges.models import Feedback, Score
from judges.ratings import scores, user_score_queries
from memory.facts import public_ids
from memory.transcript import conversation_queries
from memory.transcript.conversation_queries import (
    FactInfo,
    ThreadInfo,
    TranscriptMessage,
)
from telemetry.presentation import previews, turn_serializers
from telemetry.presentation.previews import TopLevelCall
from telemetry.types import TurnRecord, TurnSummary

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """Some messages of a thread, oldest first."""

    data: Sequence[JsonObject]
    has_more: bool
    """Whether there are earlier ones."""
    first_position: int | None
    """The position of the oldest message, before which the next page ends."""


@dataclass(frozen=True, slots=True)
class _TurnDetails:
    """Additional data by turn or by message."""

    summaries: Mapping[UUID, TurnSummary]
    calls: Mapping[UUID, Sequence[TopLevelCall]]
    scores: Mapping[UUID, Sequence[Score]]
    feedback: Mapping[UUID, Feedback]
    extracted_facts: Mapping[int | None, Sequence[FactInfo]]


def conversation_page(
    user_id: UserId, thread: ThreadInfo, *, before: int | None = None, limit: int = 40
) -> ConversationPage:
    """Return the newest messages of a thread, or those before a position.

    Turns that failed without a message are included. It takes seven queries, however
    long the conversation is.
    """
    messages, has_more = conversation_queries.list_messages(
        thread.id, before=before, limit=limit
    )
    details = _load_details(user_id, messages)
    # Messages of one turn are stored together, and clocks of processes differ.
    times = accumulate((message.created_at for message in messages), max)
    timed = list(zip(times, _serialize_messages(messages, details), strict=True))
    timed += _failed_turns_between(user_id, thread.name, messages, before, has_more)
    timed.sort(key=lambda pair: pair[0])
    first = messages[0].position if messages else None
    return ConversationPage(
        [each for _, each in timed if each is not None], has_more, first
    )


def failed_turns_page(user_id: UserId) -> ConversationPage:
    """Return the failed turns of a user without a conversation."""
    failed = previews.load_failed_turns(user_id, None, None, None)
    return ConversationPage(
        [_serialize_failed_turn(turn) for turn in reversed(failed)], False, None
    )


def _load_details(
    user_id: UserId, messages: Sequence[TranscriptMessage]
) -> _TurnDetails:
    turn_ids = {message.turn_id for message in messages}
    summaries = previews.load_summaries(user_id, turn_ids)
    calls: dict[UUID, list[TopLevelCall]] = defaultdict(list)
    scores_by_turn: dict[UUID, list[Score]] = defaultdict(list)
    facts: dict[int | None, list[FactInfo]] = defaultdict(list)
    for call in previews.load_top_level_calls(summaries):
        calls[call.turn_id].append(call)
    for score in scores.scores_of_turns(turn_ids):
        scores_by_turn[score.turn_id].append(score)
    for fact in conversation_queries.list_extracted_facts(
        user_id, [message.id for message in messages]
    ):
        facts[fact.message_id].append(fact)
    feedback = user_score_queries.feedback_on_turns(user_id, turn_ids)
    return _TurnDetails(
        summaries, calls, scores_by_turn, {row.turn_id: row for row in feedback}, facts
    )


def _serialize_messages(
    messages: Sequence[TranscriptMessage], details: _TurnDetails
) -> Iterator[JsonObject | None]:
    """Yield the serialized messages.

    It omits the intermediate messages of a reply: calls and their results are part of
    the reply that they led to.
    """
    results = {each.tool_call_id: each.text for each in messages if each.tool_call_id}
    last = {each.turn_id: each for each in messages}
    pending_calls: list[JsonObject] = []
    for message in messages:
        calls = [_serialize_transcript_call(call, results) for call in message.calls]
        if message is not last[message.turn_id]:
            pending_calls += calls
            is_step = message.role == "tool" or (message.calls and not message.text)
            yield None if is_step else _serialize_message(message, details)
            continue
        recorded = [
            _serialize_recorded_call(call)
            for call in details.calls.get(message.turn_id, ())
        ]
        yield {
            **_serialize_message(message, details),
            **_serialize_turn_end(message.turn_id, details),
            "calls": recorded or [*pending_calls, *calls],
        }
        pending_calls = []


def _serialize_message(message: TranscriptMessage, details: _TurnDetails) -> JsonObject:
    return {
        "object": "message",
        "position": message.position,
        "turn_id": str(message.turn_id),
        "role": message.role,
        "content": message.text,
        "parts": message.parts,
        "tokens": message.tokens,
        "agent": message.agent or None,
        "finish_reason": message.finish_reason or None,
        "importance": message.importance,
        "summarized": message.is_summarized,
        "created_at": turn_serializers.format_time(message.created_at),
        "extracted_facts": [
            _serialize_fact(fact)
            for fact in details.extracted_facts.get(message.id, ())
        ],
    }


def recalled_facts(turn: TurnRecord) -> list[JsonObject]:
    """Return the facts that a turn recalled, in their current state, without deleted
    ones."""
    fact_ids = [
        fact_id
        for name in turn.recalled_fact_ids
        if (fact_id := public_ids.parse_fact_id(name))
    ]
    return [
        _serialize_fact(fact)
        for fact in conversation_queries.list_recalled_facts(turn.user_id, fact_ids)
    ]


def _serialize_fact(fact: FactInfo) -> JsonObject:
    return {
        "id": public_ids.format_fact_id(fact.id),
        "content": fact.content,
        "category": fact.category,
        "status": fact.status,
    }


def _serialize_turn_end(turn_id: UUID, details: _TurnDetails) -> JsonObject:
    """Return the data of the turn whose last message this is."""
    turn = details.summaries.get(turn_id)
    return {
        "turn": None if turn is None else _serialize_turn(turn),
        "scores": [serialize_score(row) for row in details.scores.get(turn_id, ())],
        "feedback": serialize_feedback(details.feedback.get(turn_id)),
    }


def _serialize_turn(turn: TurnSummary) -> JsonObject:
    data = turn_serializers.serialize_summary(turn)
    data["error"] = turn.error
    for name in ("user_message", "user_id", "thread_id"):
        del data[name]
    return data


def serialize_score(row: Score) -> JsonObject:
    """Return a score of a turn."""
    return {
        "judge": row.judge,
        "criterion": row.criterion,
        "value": row.value,
        "reasoning": row.reasoning or None,
        "judged_at": turn_serializers.format_time(row.judged_at),
    }


def serialize_feedback(row: Feedback | None) -> JsonObject | None:
    """Return the user's feedback on a turn, if any."""
    if row is None:
        return None
    return {
        "score": row.score,
        "thumb": row.thumb,
        "comment": redaction.redact_own(row.comment) or None,
        "updated_at": turn_serializers.format_time(row.updated_at),
    }


def _serialize_recorded_call(call: TopLevelCall) -> JsonObject:
    return {
        "name": call.name,
        "kind": call.kind,
        "target": call.target or None,
        "seconds": call.seconds,
        "arguments": _truncate(call.arguments),
        "result": _truncate(call.result),
        "error": _truncate(call.error),
    }


def _serialize_transcript_call(
    call: ToolCall, results: Mapping[str, str]
) -> JsonObject:
    """Return a call from the transcript, which has no caller and no duration."""
    return {
        "name": call.name,
        "kind": "unknown",
        "target": None,
        "seconds": None,
        "arguments": _truncate(call.arguments),
        "result": _truncate(results.get(call.id)),
        "error": None,
    }


def _truncate(text: str | None) -> str | None:
    if text is None or len(text) <= previews.MAX_TEXT_LENGTH:
        return text
    return f"{text[: previews.MAX_TEXT_LENGTH]}…"


def _failed_turns_between(
    user_id: UserId,
    thread: str,
    messages: Sequence[TranscriptMessage],
    before: int | None,
    has_more: bool,
) -> Iterator[tuple[datetime, JsonObject]]:
    """Yield failed turns without messages from the time of a page."""
    since = messages[0].created_at if messages and has_more else None
    until = messages[-1].created_at if messages and before is not None else None
    turn_ids = {message.turn_id for message in messages}
    for turn in previews.load_failed_turns(user_id, thread, since, until):
        if turn.turn_id not in turn_ids:
            yield turn.started_at, _serialize_failed_turn(turn)


def _serialize_failed_turn(turn: TurnSummary) -> JsonObject:
    return {**turn_serializers.serialize_summary(turn), "error": turn.error}
