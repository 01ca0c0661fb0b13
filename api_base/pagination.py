"""Pagination of lists, as in OpenAI's API."""

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from pydantic import BaseModel

from core.errors import Invalid
from core.ids import UserId
from database import database_executor

Id = TypeVar("Id", bound=uuid.UUID)
Position = TypeVar("Position")
Shown = TypeVar("Shown", bound=BaseModel)
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


def cut_page(objects: Sequence[dict[str, Any]], limit: int) -> dict[str, Any]:
    """Return a page of the first objects; one more than the limit shows if it ends."""
    return serialize_page(objects[:limit], has_more=len(objects) > limit)


class ListPage(BaseModel, Generic[Shown]):
    """A page of objects that are pydantic models, as documents describe it."""

    object: Literal["list"] = "list"
    data: list[Shown]
    has_more: bool
    first_id: str | None
    last_id: str | None

    @classmethod
    def of(cls, data: list[Any], *, has_more: bool) -> Self:
        first_id, last_id = (
            (str(data[0].id), str(data[-1].id)) if data else (None, None)
        )
        return cls(data=data, has_more=has_more, first_id=first_id, last_id=last_id)


class PageQuery(Protocol):
    """The part of a list that a client asks for."""

    @property
    def limit(self) -> int: ...

    @property
    def order(self) -> Literal["asc", "desc"]: ...

    @property
    def after(self) -> str | None: ...


def select_page(
    items: Sequence[dict[str, Any]], query: PageQuery, *, is_ordered: bool = False
) -> dict[str, Any]:
    """Return a page of objects; raises `Invalid`.

    They are given oldest first, or with `is_ordered` in the order of the query.
    """
    ordered = items if is_ordered or query.order == "asc" else items[::-1]
    start = 0
    if query.after is not None:
        ids = [item["id"] for item in ordered]
        if query.after not in ids:
            raise wrong_cursor()
        start = ids.index(query.after) + 1
    return cut_page(ordered[start:], query.limit)


async def resolve_cursor(
    user_id: UserId,
    after: str | None,
    *,
    parse_id: Callable[[str], Id | None],
    find: Callable[[Id, UserId], Position | None],
) -> Position | None:
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
        raise wrong_cursor()
    return cursor


def wrong_cursor() -> Invalid:
    """Return the error for an `after` that is not the id of an object in the list."""
    return Invalid("'after' must be the last_id of the previous page", param="after")
