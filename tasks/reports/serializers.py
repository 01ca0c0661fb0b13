"""A task as clients and operators are told of it: JSON in place of our own values."""

from datetime import datetime
from typing import Any

from core.errors import public
from tasks.models import Task
from tasks.reports.costs import Spent
from telemetry.presentation.turn_serializers import instant, usd

MAX_LISTED = 500
"""Characters of a text that lists have of each task."""
MAX_REPORTED_PROMPT = 200
NOTHING = Spent()


def task(row: Task, spent: Spent = NOTHING) -> dict[str, Any]:
    """Return a task as a `task` object."""
    turn_id = spent.turn_id or row.turn_id
    return {
        "id": str(row.pk),
        "object": "task",
        "kind": row.kind,
        "state": row.state,
        "agent": row.agent,
        "prompt": row.prompt,
        "result": row.result if row.state == Task.State.DONE else None,
        "error": public(row.error) or None,
        "cancel_requested": row.is_cancelled,
        "priority": row.priority,
        "attempts": row.attempts,
        "retries": row.max_failures - 1,
        "origin": row.origin,
        "metadata": row.payload.get("metadata") or None,
        "turn_id": None if turn_id is None else str(turn_id),
        "cost_usd": usd(spent.micro_usd),
        "request_id": row.request_id or None,
        "due_at": instant(row.due_at) if row.state == Task.State.QUEUED else None,
        "created_at": instant(row.created_at),
        "started_at": _instant(row.started_at),
        "finished_at": _instant(row.finished_at),
    }


def listed(row: Task, spent: Spent = NOTHING) -> dict[str, Any]:
    """Return a task as lists have it: long texts are cut."""
    told = task(row, spent)
    for name in ("prompt", "result"):
        if told[name] is not None:
            told[name] = cut(told[name], MAX_LISTED)
    return told


def reported(row: Task) -> dict[str, Any]:
    """Return a task as agents are told of it."""
    told = {
        "task_id": str(row.pk),
        "agent": row.agent,
        "state": row.state,
        "prompt": cut(row.prompt, MAX_REPORTED_PROMPT),
        "created_at": instant(row.created_at),
        "started_at": _instant(row.started_at),
        "finished_at": _instant(row.finished_at),
    }
    if row.state == Task.State.DONE:
        told["result"] = cut(row.result, MAX_LISTED)
    if row.error:
        told["error"] = cut(public(row.error), MAX_LISTED)
    return told


def cut(text: str, most: int) -> str:
    """Return a text with at most so many characters; an ellipsis is for the rest."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _instant(at: datetime | None) -> str | None:
    return None if at is None else instant(at)
