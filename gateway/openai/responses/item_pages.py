"""Pages of items."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from api_base import pagination
from core.errors import Invalid
from gateway.openai.responses.output_items import Item


class PageQuery(Protocol):
    """The part of a list that a client asks for."""

    @property
    def limit(self) -> int: ...

    @property
    def order(self) -> Literal["asc", "desc"]: ...

    @property
    def after(self) -> str | None: ...


def select_page(
    items: Sequence[Item], query: PageQuery, *, is_ordered: bool = False
) -> dict[str, Any]:
    """Return a page of items; raises `Invalid`.

    They are given oldest first, or with `is_ordered` in the order of the query.
    """
    ordered = items if is_ordered or query.order == "asc" else items[::-1]
    start = 0
    if query.after is not None:
        ids = [item["id"] for item in ordered]
        if query.after not in ids:
            raise Invalid(
                "'after' must be the last_id of the previous page", param="after"
            )
        start = ids.index(query.after) + 1
    page = ordered[start : start + query.limit]
    has_more = len(ordered) > start + query.limit
    return pagination.serialize_page(page, has_more=has_more)
