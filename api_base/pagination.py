"""Pagination of lists, as in OpenAI's API."""

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from core.errors import Invalid
from core.ids import UserId
from database import database_executor

Id = TypeVar("Id", bound=uuid.UUID)
Cursor = tuple[datetime, uuid.UUID]
"""The creation time and id of the last object of a page."""


def serialize_page(
    objects: Sequence[dict[str, Any]], *, has_more: bool
) -> dict[str, Any]:
    """Return a page of objects with ids, for clients."""
    return {
        "object": "list",
        "data": objects,
        "has_more": has_more,
        "first_id": objects[0]["id"] if objects else None,
        "last_id": objects[-1]["id"] if objects else None,
    }


async def resolve_cursor(
    user_id: UserId,
    after: str | None,
    *,
    parse_id: Callable[[str], Id | None],
    find: Callable[[Id, UserId], Cursor | None],
) -> Cursor | None:
    """Return the cursor of the object with the id `after`; None without an id.

    `find` looks it up among the user's objects. Raises `Invalid` for an id that is
    malformed or not the user's.
    """
    if after is None:
        return None
    last_id = parse_id(after)
    cursor = (
        None if last_id is None else await database_executor.run(find, last_id, user_id)
    )
    if cursor is None:
        raise Invalid("'after' must be the last_id of the previous page", param="after")
    return cursor
