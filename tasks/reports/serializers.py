"""JSON forms of a task for clients, agents and operators."""

from datetime import datetime
from typing import Any

from core.errors import public_text
from tasks.models import Task
from tasks.reports.costs import TaskCost
from telemetry.presentation.turn_serializers import format_time, to_usd

MAX_LISTED = 500
"""Maximum characters of a text in lists."""
MAX_SUMMARY_PROMPT = 200
NO_COST = TaskCost()


def serialize_task(row: Task, cost: TaskCost = NO_COST) -> dict[str, Any]:
    """Return a task as a `task` object."""
    turn_id = cost.turn_id or row.turn_id
    return {
        "id": str(row.pk),
        "object": "task",
        "kind": row.kind,
        "state": row.state,
        "agent": row.agent,
        "prompt": row.prompt,
        "result": row.result if row.state == Task.State.DONE else None,
        "error": public_text(row.error) or None,
        "cancel_requested": row.is_cancelled,
        "priority": row.priority,
        "attempts": row.attempts,
        "retries": row.max_failures - 1,
        "origin": row.origin,
        "metadata": row.payload.get("metadata") or None,
        "turn_id": None if turn_id is None else str(turn_id),
        "cost_usd": to_usd(cost.micro_usd),
        "request_id": row.request_id or None,
        "due_at": format_time(row.due_at) if row.state == Task.State.QUEUED else None,
        "created_at": format_time(row.created_at),
        "started_at": _format_time(row.started_at),
        "finished_at": _format_time(row.finished_at),
    }


def serialize_list_item(row: Task, cost: TaskCost = NO_COST) -> dict[str, Any]:
    """Return a task as a list item, with truncated texts."""
    item = serialize_task(row, cost)
    for name in ("prompt", "result"):
        if item[name] is not None:
            item[name] = truncate(item[name], MAX_LISTED)
    return item


def serialize_for_agent(row: Task) -> dict[str, Any]:
    """Return a task in the form that agents receive."""
    summary = {
        "task_id": str(row.pk),
        "agent": row.agent,
        "state": row.state,
        "prompt": truncate(row.prompt, MAX_SUMMARY_PROMPT),
        "created_at": format_time(row.created_at),
        "started_at": _format_time(row.started_at),
        "finished_at": _format_time(row.finished_at),
    }
    if row.state == Task.State.DONE:
        summary["result"] = truncate(row.result, MAX_LISTED)
    if row.error:
        summary["error"] = truncate(public_text(row.error), MAX_LISTED)
    return summary


def truncate(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters; an ellipsis replaces the rest."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _format_time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)
