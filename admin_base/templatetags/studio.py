"""Template filters of times, money, counts and durations."""

from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

TIME_UNITS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (None, "d", 86_400))
NO_VALUE = "\N{EN DASH}"


@register.simple_tag
def ago(instant: datetime | str | None) -> SafeString | str:
    """Format a time relative to now, with the exact time on hover.

    `studio.js` keeps it up to date, and shows the exact time in the reader's time zone.
    """
    if not instant:
        return NO_VALUE
    if isinstance(instant, str):
        instant = datetime.fromisoformat(instant)
    instant = instant.astimezone(UTC)
    return format_html(
        '<time class="ago" datetime="{}" title="{}">{}</time>',
        instant.isoformat(timespec="milliseconds"),
        f"{instant:%Y-%m-%d %H:%M:%S} UTC",
        relative_time((datetime.now(UTC) - instant).total_seconds()),
    )


def relative_time(seconds: float) -> str:
    """Return a relative time in words: `just now`, `5 min ago`, `in 3 h`."""
    distance = abs(seconds)
    if distance < 5:
        return "just now"
    if distance >= 60 * 86_400:
        months = round(distance / (30.44 * 86_400))
        text = f"{months} months" if months < 24 else f"{months // 12} years"
    else:
        _, unit, size = next(s for s in TIME_UNITS if s[0] is None or distance < s[0])
        text = f"{int(distance / size)} {unit}"
    return f"{text} ago" if seconds > 0 else f"in {text}"


@register.filter
def usd(micro: int | None) -> str:
    """Format micro-USD as dollars: with cents, or more digits for small amounts."""
    if micro is None:
        return "unknown"
    dollars = micro / 1_000_000
    if micro == 0:
        return "$0"
    if abs(dollars) >= 0.1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if abs(dollars) >= 0.0001 else f"${dollars:.6f}"


@register.filter
def dollars(amount: float | None) -> str:
    """Format dollars in the format of `usd`."""
    return usd(None if amount is None else round(amount * 1_000_000))


@register.filter
def count(number: int | None) -> str:
    """Format an integer with separators."""
    return NO_VALUE if number is None else f"{number:,}".replace(",", "\u202f")


@register.filter
def short(number: float | None) -> str:
    """Format a large number in few characters: `12.3k`, `4.1M`."""
    if number is None:
        return NO_VALUE
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            scaled = number / (1e3 if unit == "k" else size)
            return f"{scaled:.1f}".removesuffix(".0") + unit
    return count(round(number))


@register.filter
def duration(milliseconds: float | None) -> str:
    """Format a duration: `240 ms`, `3.1 s`, `2 min 5 s`."""
    if milliseconds is None:
        return NO_VALUE
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@register.filter
def percent(share: float | None) -> str:
    """Format a share between 0 and 1 as a percentage."""
    if share is None:
        return NO_VALUE
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


@register.simple_tag(takes_context=True)
def with_query(context: dict[str, Any], **changes: Any) -> str:
    """Return the page's address with changed query parameters; None removes one."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        if value is None or value == "":
            query.pop(name, None)
        else:
            query[name] = str(value)
    return f"?{query.urlencode()}" if query else context["request"].path


@register.filter
def diff_lines(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, each with its CSS class."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    return [
        ("at" if line[:3] in ("+++", "---") else kinds.get(line[:1], "same"), line)
        for line in diff.splitlines()
    ]


@register.filter
def readable_value(value: Any) -> str:
    """Format a value of an audit entry as text."""
    match value:
        case None:
            return NO_VALUE
        case bool():
            return "yes" if value else "no"
        case dict():
            return "; ".join(
                f"{name}: {readable_value(each)}" for name, each in value.items()
            )
        case list():
            return ", ".join(map(readable_value, value)) or "none"
        case int():
            return count(value)
    return str(value)


@register.filter
def seconds(number: float | None) -> str:
    """Format a duration that is given in seconds."""
    return duration(None if number is None else number * 1000)
