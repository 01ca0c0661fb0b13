"""What an export says of each row."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from core.messages import Message
from memory import fact_ids
from memory.models import Fact, FactChange, Lesson, Passage, Summary
from memory.models import Message as MessageRow
from memory.transcript import to_message


def message(row: MessageRow) -> dict[str, Any]:
    """Return a message as it was said, and what is kept beside it."""
    said = to_message(row.role, row.text, row.extra)  # type: ignore[arg-type]
    return {
        **_said(said),
        "position": row.position,
        "turn_id": row.turn_id,
        "agent": row.agent or None,
        "finish_reason": row.finish_reason or None,
        "importance": row.importance,
        "tokens": row.tokens,
        "created_at": row.created_at,
        "summarised_at": row.consolidated_at,
    }


def _said(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        said["name"] = message.name
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        said["tool_calls"] = list(message.tool_calls)
    if message.reasoning:
        said["reasoning"] = list(message.reasoning)
    return said


def facts(page: list[Fact]) -> Iterator[dict[str, Any]]:
    """Yield facts, each with its whole history."""
    changes = FactChange.objects.filter(fact__in=page).order_by("fact_id", "pk")
    history = {
        fact_id: [_change(change) for change in of_one]
        for fact_id, of_one in groupby(changes, lambda change: change.fact_id)
    }
    for fact in page:
        yield {**_fact(fact), "history": history.get(fact.pk, [])}


def _fact(fact: Fact) -> dict[str, Any]:
    ends = fact.superseded_by_id
    return {
        "id": fact_ids.write(fact.pk),
        "content": fact.content,
        "category": fact.category,
        "key": fact.key,
        "importance": fact.importance,
        "status": fact.status,
        "pinned": fact.is_pinned,
        "source": fact.source,
        "agent": fact.agent or None,
        "quote": fact.quote or None,
        "said_at": fact.said_at,
        "valid_from": fact.valid_from,
        "valid_to": fact.valid_to,
        "expires_at": fact.expires_at,
        "superseded_by": fact_ids.write(ends) if ends else None,
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
    }


def _change(change: FactChange) -> dict[str, Any]:
    return {
        "at": change.at,
        "action": change.action,
        "by": change.by,
        "reason": change.reason or None,
        "before": change.before,
        "after": change.after,
    }


def summaries(page: list[Summary]) -> Iterator[dict[str, Any]]:
    """Yield summaries."""
    for summary in page:
        yield {
            "thread_id": summary.thread.name or None,
            "first_position": summary.first_position,
            "end_position": summary.end_position,
            "text": summary.text,
            "tokens": summary.tokens,
            "model": summary.model,
            "created_at": summary.created_at,
        }


def lessons(page: list[Lesson]) -> Iterator[dict[str, Any]]:
    """Yield the turns that were learnt from, and how that went."""
    for lesson in page:
        yield {
            "thread_id": lesson.thread.name or None,
            "turn_id": lesson.turn_id,
            "first_position": lesson.first_position,
            "end_position": lesson.end_position,
            "agent": lesson.agent,
            "time_zone": lesson.time_zone or None,
            "state": lesson.state,
            "attempts": lesson.attempts,
            "due_at": lesson.due_at,
            "error": lesson.error or None,
            "reply": lesson.reply or None,
            "facts_found": lesson.facts_found,
            "facts_saved": lesson.facts_saved,
            "created_at": lesson.created_at,
            "finished_at": lesson.finished_at,
        }


def passages(page: list[Passage]) -> Iterator[dict[str, Any]]:
    """Yield what can be found by searching, without the vectors."""
    for passage in page:
        thread = passage.thread
        yield {
            "memory_id": fact_ids.write(passage.fact_id) if passage.fact_id else None,
            "thread_id": thread.name or None if thread else None,
            "position": passage.position,
            "is_question": passage.is_question,
            "embedder": passage.embedder or None,
            "dimensions": passage.dimensions,
            "embedding_error": passage.embedding_error or None,
        }
