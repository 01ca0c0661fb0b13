"""Serializers of exported rows; instants are as in `fact_serializers`."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from core.errors import public_text
from core.messages import Message
from core.text import timestamps
from memory.facts import fact_serializers, public_ids
from memory.facts.fact_store import stored_fact_from_row
from memory.facts.types import FactHistoryStep
from memory.models import ExtractionJob, Fact, FactChange, Passage, Summary
from memory.models import StoredMessage as MessageRow
from memory.transcript.message_rows import message_from_row, visible_message


def serialize_message(row: MessageRow, *, shows_calls: bool) -> dict[str, Any] | None:
    """Return a message with its stored metadata.

    Calls of agents' own tools are removed unless `shows_calls` is set; returns None if
    nothing remains.
    """
    convert = message_from_row if shows_calls else visible_message
    message = convert(row.role, row.text, row.extra)  # type: ignore[arg-type]
    if message is None:
        return None
    return {
        **_openai_message(message),
        "position": row.position,
        "turn_id": row.turn_id,
        "agent": row.agent or None,
        "finish_reason": row.finish_reason or None,
        "importance": row.importance,
        "tokens": row.tokens,
        "created_at": fact_serializers.unix_seconds(row.created_at),
        "summarized_at": timestamps.format_time(row.summarized_at),
    }


def _openai_message(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        fields["name"] = message.name
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        fields["tool_calls"] = list(message.tool_calls)
    if message.reasoning:
        fields["reasoning"] = list(message.reasoning)
    return fields


def serialize_facts(page: list[Fact]) -> Iterator[dict[str, Any]]:
    """Yield facts, each with its whole history."""
    steps: dict[UUID, list[dict[str, Any]]] = {fact.pk: [] for fact in page}
    for step in FactChange.objects.filter(fact__in=page).order_by("at", "pk"):
        change = FactHistoryStep(
            step.at, step.action, step.by, step.reason, step.before, step.after
        )
        steps[step.fact_id].append(fact_serializers.serialize_change(change))
    for fact in page:
        yield {
            **fact_serializers.serialize_fact(stored_fact_from_row(fact)),
            "history": steps[fact.pk],
        }


def serialize_summaries(page: list[Summary]) -> Iterator[dict[str, Any]]:
    """Yield summaries."""
    for summary in page:
        yield {
            "thread_id": summary.thread.name or None,
            "first_position": summary.first_position,
            "end_position": summary.end_position,
            "text": summary.text,
            "tokens": summary.tokens,
            "model": summary.model,
            "created_at": fact_serializers.unix_seconds(summary.created_at),
        }


def serialize_jobs(page: list[ExtractionJob]) -> Iterator[dict[str, Any]]:
    """Yield extraction jobs with their results."""
    for job in page:
        yield {
            "thread_id": job.thread.name or None,
            "turn_id": job.turn_id,
            "first_position": job.first_position,
            "end_position": job.end_position,
            "agent": job.agent,
            "time_zone": job.time_zone or None,
            "state": job.state,
            "attempts": job.attempts,
            "due_at": timestamps.format_time(job.due_at),
            "error": public_text(job.error) or None,
            "reply": job.reply or None,
            "facts_found": job.facts_found,
            "facts_saved": job.facts_saved,
            "created_at": fact_serializers.unix_seconds(job.created_at),
            "finished_at": timestamps.format_time(job.finished_at),
        }


def serialize_passages(page: list[Passage]) -> Iterator[dict[str, Any]]:
    """Yield searchable texts, without the vectors."""
    for passage in page:
        thread = passage.thread
        yield {
            "memory_id": public_ids.format_fact_id(passage.fact_id)
            if passage.fact_id
            else None,
            "thread_id": thread.name or None if thread else None,
            "position": passage.position,
            "is_question": passage.is_question,
            "embedder": passage.embedder or None,
            "dimensions": passage.dimensions,
            "embedding_error": public_text(passage.embedding_error) or None,
        }
