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


def serialize_page(told: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return a page of objects with ids, for clients."""
    return {
        "object": "list",
        "data": told,
        "has_more": has_more,
        "first_id": told[0]["id"] if told else None,
        "last_id": told[-1]["id"] if told else None,
    }


async def resolve_cursor(
    user_id: UserId,
    after: str | None,
    *,
    read: Callable[[str], Id | None],
    find: Callable[[Id, UserId], Cursor | None],
) -> Cursor | None:
    """Return the end of the previous page, by its id `after`; None without one.

    `read` parses the id, `find` looks it up among the user's objects. Raises `Invalid`
    for an id that is malformed or not the user's.
    """
    if after is None:
        return None
    wanted = read(after)
    found = (
        None if wanted is None else await database_executor.run(find, wanted, user_id)
    )
    if found is None:
        raise Invalid("'after' must be the last_id of the page before", param="after")
    return found
