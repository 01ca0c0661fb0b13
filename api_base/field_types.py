"""Field types of requests and responses: times, text, page sizes, metadata."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_PAGE_SIZE = 100


def parse_instant(value: object) -> datetime:
    """Return an ISO 8601 date and time in UTC; it must include its time zone."""
    if isinstance(value, datetime):
        return value
    try:
        at = datetime.fromisoformat(value)  # type: ignore[arg-type]
        if at.utcoffset() is not None:
            return at.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError(
            "instant",
            "must be a date and time such as '2026-03-01T09:30:00Z'",
        ) from None
    raise PydanticCustomError(
        "instant",
        "has no time zone: add Z for UTC, or an offset such as +02:00 (in a URL, "
        "%2B02:00)",
    )


def refuse_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain NUL characters")
    return text


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
NullIfEmpty = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""A text of a response; an empty one is null."""
UnixSeconds = Annotated[
    int,
    BeforeValidator(lambda at: int(at.timestamp()) if hasattr(at, "timestamp") else at),
]
"""An instant of a response, in seconds since 1970, as in OpenAI's objects."""
PageLimit = Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)]
# OpenAI's own limits.
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(max_length=64)],
        Annotated[str, StringConstraints(max_length=512)],
    ],
    Field(max_length=16),
]
