"""Cursors of long lists: the text that `?after=` takes."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from core.errors import Invalid
from core.validation import storable_values

Key = TypeVar("Key")


def serialize_page(
    data: list[Any], *, has_more: bool = False, last: tuple[datetime, Any] | None = None
) -> dict[str, Any]:
    """Return a page for scripts; `last` is the cursor position of its last object."""
    last_id = None if last is None else f"{last[0].isoformat()}~{last[1]}"
    return {"object": "list", "data": data, "has_more": has_more, "last_id": last_id}


def parse_cursor(text: str | None, key: type[Key]) -> tuple[datetime, Key] | None:
    """Return where the previous page ended; None for the first page.

    `key` parses the second part of the cursor, and raises `ValueError` if it cannot.
    Raises `Invalid` for a malformed cursor.
    """
    if not text:
        return None
    at, _, rest = text.partition("~")
    try:
        instant = datetime.fromisoformat(at)
        if instant.tzinfo is None:
            raise ValueError
        last: Any = key(rest)  # type: ignore[call-arg]  # int and UUID take a text
        if storable_values.describe_problem(last) is not None:
            raise ValueError
        # Fails for an instant before the first or after the last year in UTC.
        return instant.astimezone(UTC), last
    except (ValueError, OverflowError):
        raise Invalid(
            "'after' must be the last_id of the previous page", param="after"
        ) from None
