"""Lists of which clients ask for one page after another, as OpenAI's are."""

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from core.errors import Invalid
from core.ids import UserId
from database import database_executor

Id = TypeVar("Id", bound=uuid.UUID)
Cursor = tuple[datetime, uuid.UUID]
"""When the last one of a page was made, and its id."""


def serialize_page(told: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return what clients are told of a page of objects that have ids."""
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
    """Return where the page before ends, by the id that `after` is; None for none.

    `read` makes an id of the text, `find` looks where that stands among this user's.
    Raises `Invalid` for what is none of theirs.
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
