"""Snapshot of the queue: running, waiting and recently ended tasks.

It reads at most a thousand tasks, however long the queue is.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from core.text import redaction
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.presentation.turn_serializers import format_time

MAX_COUNTED = 1000
"""Maximum open tasks that are read and counted."""
MAX_SHOWN = 20
"""Maximum tasks shown per state."""
MAX_TEXT_LENGTH = 200
"""Characters of a text."""
MAX_READ_LENGTH = 4 * MAX_TEXT_LENGTH
"""Characters read of a text, so that truncation leaves no half of a secret unmasked."""

COLUMNS = (
    "id",
    "kind",
    "state",
    "agent",
    "user_id",
    "origin",
    "turn_id",
    "attempts",
    "is_cancelled",
    "created_at",
    "started_at",
    "finished_at",
    "due_at",
)


def snapshot() -> dict[str, Any]:
    """Return the snapshot as JSON; `has_more` means that not all tasks were counted."""
    states = dict(
        Task.objects.filter(lifecycle.IS_OPEN)
        .order_by("-priority", "round", "created_at")
        .values_list("pk", "state")[:MAX_COUNTED]
    )
    counts = Counter(states.values())
    shown_ids = [
        pk
        for shown in (Task.State.RUNNING, Task.State.QUEUED)
        for pk in [pk for pk, state in states.items() if state == shown][:MAX_SHOWN]
    ]
    shown_tasks = Task.objects.filter(pk__in=shown_ids)
    rows = {row["id"]: row for row in _select_rows(shown_tasks)}
    ended = Task.objects.filter(finished_at__isnull=False).order_by("-finished_at")
    return {
        "counts": {state.value: counts[state] for state in lifecycle.OPEN},
        "has_more": len(states) == MAX_COUNTED,
        "open": [_serialize_row(rows[pk]) for pk in shown_ids if pk in rows],
        "ended": [_serialize_row(row) for row in _select_rows(ended)[:MAX_SHOWN]],
    }


def _select_rows(tasks: QuerySet[Task]) -> QuerySet[Task, dict[str, Any]]:
    texts = {
        "prompt_text": Left("prompt", MAX_READ_LENGTH),
        "error_text": Left("error", MAX_READ_LENGTH),
    }
    rows: QuerySet[Task, dict[str, Any]] = tasks.values(*COLUMNS, **texts)
    return rows


def _serialize_row(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {
        name: None if row[name] is None else format_time(row[name])
        for name in ("created_at", "started_at", "finished_at")
    }
    is_queued = row["state"] == Task.State.QUEUED
    return {
        "id": str(row["id"]),
        "object": "task",
        "kind": row["kind"],
        "state": row["state"],
        "agent": row["agent"],
        "user_id": str(row["user_id"]),
        "prompt": _short_text(row["prompt_text"]),
        "error": _short_text(row["error_text"]) or None,
        "origin": row["origin"],
        "turn_id": None if row["turn_id"] is None else str(row["turn_id"]),
        "attempts": row["attempts"],
        "cancel_requested": row["is_cancelled"],
        "due_at": format_time(row["due_at"]) if is_queued else None,
        **times,
        "since": times["created_at"]
        if is_queued
        else times["finished_at"] or times["started_at"],
    }


def _short_text(text: str) -> str:
    return " ".join(redaction.redact_own(text).split())[:MAX_TEXT_LENGTH]
