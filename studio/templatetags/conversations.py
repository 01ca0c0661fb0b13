"""Template filters of conversations: indented JSON, labels, durations."""

from typing import Any

import orjson
from django import template

from admin_base.templatetags.studio import NO_VALUE, duration
from judges.ratings.statistics import score_tone

register = template.Library()
register.filter(score_tone)

MAX_INDENTED_LENGTH = 50_000

KIND_LABELS = {"mcp": "MCP", "client": "client", "unknown": "tool"}


@register.filter
def indent_json(text: str | None) -> str:
    """Return JSON with a line for each entry; other text stays as it is."""
    if not text or len(text) > MAX_INDENTED_LENGTH or text[0] not in "{[":
        return text or ""
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return text


@register.filter
def kind_label(kind: str) -> str:
    """Return a label for the kind of the called tool."""
    return KIND_LABELS.get(kind, kind)


@register.filter
def status_label(status: str) -> str:
    """Return a label for the status of a fact."""
    return status.replace("_", " ")


@register.filter
def call_seconds(value: float | None) -> str:
    """Format the duration of a call; None means that it was cancelled."""
    return "cancelled" if value is None else duration(value * 1000)


@register.filter
def get_item(values: dict[str, Any], name: str) -> Any:
    """Return an entry of a map, or None."""
    return values.get(name, "")


@register.filter
def score(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.3g}"
