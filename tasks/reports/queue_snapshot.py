"""The queue as it stands: what runs, what waits, what has just ended.

However long the queue is, no more than a thousand of it is looked at.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from core.text import redaction
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.presentation.turn_serializers import instant

LOOKED_AT = 1000
"""Of those that are open; so many are counted, too."""
SHOWN = 20
"""Of each state."""
MOST_SAID = 200
"""Characters of a text."""
MOST_READ = 4 * MOST_SAID
"""So much is looked at, so that no half of a secret is left at the end."""

COLUMNS = (
    *("id", "kind", "state", "agent", "user_id", "origin", "turn_id", "attempts"),
    *("is_cancelled", "created_at", "started_at", "finished_at", "due_at"),
)


def told() -> dict[str, Any]:
    """Return it as JSON has it; `more` says that there are more than were counted."""
    open_ones = dict(
        Task.objects.filter(lifecycle.IS_OPEN)
        .order_by("-priority", "round", "created_at")
        .values_list("pk", "state")[:LOOKED_AT]
    )
    counts = Counter(open_ones.values())
    shown = [
        pk
        for state in (Task.State.RUNNING, Task.State.QUEUED)
        for pk in [pk for pk, its in open_ones.items() if its == state][:SHOWN]
    ]
    rows = {row["id"]: row for row in _rows(Task.objects.filter(pk__in=shown))}
    ended = Task.objects.filter(finished_at__isnull=False).order_by("-finished_at")
    return {
        "counts": {state.value: counts[state] for state in lifecycle.OPEN},
        "more": len(open_ones) == LOOKED_AT,
        "open": [_told(rows[pk]) for pk in shown if pk in rows],
        "ended": [_told(row) for row in _rows(ended)[:SHOWN]],
    }


def _rows(tasks: QuerySet[Task]) -> QuerySet[Task, dict[str, Any]]:
    cut = {"said": Left("prompt", MOST_READ), "failed": Left("error", MOST_READ)}
    rows: QuerySet[Task, dict[str, Any]] = tasks.values(*COLUMNS, **cut)
    return rows


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    at = {
        name: None if row[name] is None else instant(row[name])
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
        "prompt": _line(row["said"]),
        "error": _line(row["failed"]) or None,
        "origin": row["origin"],
        "turn_id": None if row["turn_id"] is None else str(row["turn_id"]),
        "attempts": row["attempts"],
        "cancel_requested": row["is_cancelled"],
        "due_at": instant(row["due_at"]) if is_queued else None,
        **at,
        "since": at["created_at"]
        if is_queued
        else at["finished_at"] or at["started_at"],
    }


def _line(text: str) -> str:
    return " ".join(redaction.own(text).split())[:MOST_SAID]
