"""Template filters of the live page; `live.js` formats the same values."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from studio.templatetags.studio import seconds

register = template.Library()

TASK_COLOURS = {
    "queued": "",
    "running": "is-accent",
    "done": "is-good",
    "errored": "is-bad",
    "cancelled": "is-warn",
}

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
    """Format the time since an instant."""
    started_at = datetime.fromisoformat(instant)
    return seconds((datetime.now(UTC) - started_at).total_seconds())


@register.filter
def task_colour(state: str | None) -> str:
    """Return the colour of a task's state."""
    return TASK_COLOURS.get(state or "", "")


@register.simple_tag
def elapsed_between(start: str, end: str) -> str:
    """Format the time between two instants."""
    elapsed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return seconds(max(elapsed.total_seconds(), 0.0))


@register.filter
def task_origin(origin: str) -> SafeString | str:
    """Return the origin of a task, with a link to its page if it has one."""
    kind, _, name = origin.partition(":")
    match kind:
        case "api":
            return "a client"
        case "turn":
            link = '<a href="/admin/turns/{}">a turn</a>'
            return format_html(link, name)
        case "trigger":
            return format_html(
                '<a href="/admin/triggers/{}">{}</a>', _quote(name), name
            )
        case "smoke":
            link = 'smoke test <a href="/admin/smoke/{}">{}</a>'
            return format_html(link, _quote(name), name)
        case _:
            return origin or "the server"


def _quote(name: str) -> str:
    return quote(name, safe="")


@register.filter
def task_mark(state: str) -> str:
    """Return a task's state as one character, next to its name."""
    return TASK_MARKS.get(state, "?")


@register.filter
def sidecar_colour(state: str) -> str:
    """Return the colour of a sidecar's state."""
    return {"running": "is-good", "waiting": "is-warn", "failed": "is-bad"}.get(
        state, ""
    )
