"""Template filters of the live page; `live.js` formats the same values."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import template

from admin_base.templatetags.studio import seconds
from tasks.schemas import COLOURS

register = template.Library()

TASK_MARKS = {
    "queued": "\N{HORIZONTAL ELLIPSIS}",
    "running": "\N{BLACK CIRCLE}",
    "done": "\N{CHECK MARK}",
    "errored": "\N{MULTIPLICATION X}",
    "cancelled": "\N{EN DASH}",
}


@register.filter
def describe_step(step: Mapping[str, Any]) -> str:
    """Describe the step that a turn waits for."""
    names = ", ".join(step["names"])
    match step["kind"]:
        case "model":
            return f"waiting for {names}"
        case "tools":
            return f"calling {names}"
        case "end":
            return "continuing"
        case _:
            return "starting"


@register.simple_tag
def elapsed_since(instant: str) -> str:
    started_at = datetime.fromisoformat(instant)
    return seconds((datetime.now(UTC) - started_at).total_seconds())


@register.filter
def task_colour(state: str | None) -> str:
    return COLOURS.get(state or "", "")


@register.filter
def task_mark(state: str) -> str:
    """Return a task's state as one character, next to its name."""
    return TASK_MARKS.get(state, "?")


@register.filter
def sidecar_colour(state: str) -> str:
    return {"running": "is-good", "waiting": "is-warn", "failed": "is-bad"}.get(
        state, ""
    )
