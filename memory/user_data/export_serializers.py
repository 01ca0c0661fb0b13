"""What an export says of each row; `fact_serializers` says how instants look."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from core.errors import public
from core.messages import Message
from core.text import timestamps
from memory.facts import fact_serializers, public_ids
from memory.facts.fact_store import to_known
from memory.models import Fact, FactChange, Lesson, Passage, Summary
from memory.models import Message as MessageRow
from memory.transcript.message_rows import shown, to_message
from memory.types import Change


def message(row: MessageRow, *, shows_calls: bool) -> dict[str, Any] | None:
    """Return a message as it was said, and what is kept beside it.

    Without the calls of agents' own tools unless they are shown; None where nothing
    else is in it.
    """
    read = to_message if shows_calls else shown
    said = read(row.role, row.text, row.extra)  # type: ignore[arg-type]
    if said is None:
        return None
    return {
        **_said(said),
        "position": row.position,
        "turn_id": row.turn_id,
        "agent": row.agent or None,
        "finish_reason": row.finish_reason or None,
        "importance": row.importance,
        "tokens": row.tokens,
        "created_at": fact_serializers.seconds(row.created_at),
        "summarised_at": timestamps.instant(row.consolidated_at),
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
    steps: dict[UUID, list[dict[str, Any]]] = {fact.pk: [] for fact in page}
    for step in FactChange.objects.filter(fact__in=page).order_by("at", "pk"):
        told = Change(
            *(step.at, step.action, step.by, step.reason, step.before, step.after)
        )
        steps[step.fact_id].append(fact_serializers.change(told))
    for fact in page:
        yield {**fact_serializers.fact(to_known(fact)), "history": steps[fact.pk]}


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
            "created_at": fact_serializers.seconds(summary.created_at),
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
            "due_at": timestamps.instant(lesson.due_at),
            "error": public(lesson.error) or None,
            "reply": lesson.reply or None,
            "facts_found": lesson.facts_found,
            "facts_saved": lesson.facts_saved,
            "created_at": fact_serializers.seconds(lesson.created_at),
            "finished_at": timestamps.instant(lesson.finished_at),
        }


def passages(page: list[Passage]) -> Iterator[dict[str, Any]]:
    """Yield what can be found by searching, without the vectors."""
    for passage in page:
        thread = passage.thread
        yield {
            "memory_id": public_ids.write(passage.fact_id) if passage.fact_id else None,
            "thread_id": thread.name or None if thread else None,
            "position": passage.position,
            "is_question": passage.is_question,
            "embedder": passage.embedder or None,
            "dimensions": passage.dimensions,
            "embedding_error": public(passage.embedding_error) or None,
        }
