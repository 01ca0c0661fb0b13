"""Long lists, page by page: where one ends is told as a text that `?after=` takes."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from core.errors import Invalid
from core.validation import storable_values

Key = TypeVar("Key")


def serialize_page(
    data: list[Any], *, has_more: bool = False, last: tuple[datetime, Any] | None = None
) -> dict[str, Any]:
    """Return a page as scripts get it; `last` is the place of its last one."""
    last_id = None if last is None else f"{last[0].isoformat()}~{last[1]}"
    return {"object": "list", "data": data, "has_more": has_more, "last_id": last_id}


def parse_cursor(text: str | None, key: type[Key]) -> tuple[datetime, Key] | None:
    """Return where the page before ended; None for the first.

    `key` makes the second part of its text, and raises `ValueError` where it cannot.
    Raises `Invalid` for what is no place.
    """
    if not text:
        return None
    at, _, rest = text.partition("~")
    try:
        found = datetime.fromisoformat(at)
        if found.tzinfo is None:
            raise ValueError
        last: Any = key(rest)  # type: ignore[call-arg]  # int and UUID take a text
        if storable_values.describe_problem(last) is not None:
            raise ValueError
        # Fails where it is beyond the first or the last year in UTC.
        return found.astimezone(UTC), last
    except (ValueError, OverflowError):
        raise Invalid(
            "'after' must be the last_id of the page before", param="after"
        ) from None
