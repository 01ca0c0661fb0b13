"""How the live board writes what happens; `live.js` writes the same."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import template

from studio.templatetags.studio import duration

register = template.Library()

COLOURS = {
    "queued": "",
    "running": "is-accent",
    "done": "is-good",
    "errored": "is-bad",
    "cancelled": "is-warn",
}


@register.filter
def doing(told: Mapping[str, Any]) -> str:
    """Write what a turn waits for."""
    names = ", ".join(told["names"])
    match told["what"]:
        case "model":
            return f"waits for {names}"
        case "tools":
            return f"calls {names}"
        case "end":
            return "goes on"
        case _:
            return "begins"


@register.simple_tag
def since(instant: str) -> str:
    """Write how long something runs."""
    begun = datetime.fromisoformat(instant)
    return seconds((datetime.now(UTC) - begun).total_seconds())


@register.filter
def seconds(number: float | None) -> str:
    """Write how long something took."""
    return duration(None if number is None else number * 1000)


@register.filter
def task_colour(state: str | None) -> str:
    """Return the colour of a task's state."""
    return COLOURS.get(state or "", "")
