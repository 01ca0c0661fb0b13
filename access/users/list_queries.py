"""The query parameters of lists, as in OpenAI's API."""

from typing import Literal

from pydantic import Field

from access.users.request_user import CallerQuery
from api_base.field_types import PageLimit


class ListQuery(CallerQuery):
    """The page of a list whose newest objects come first."""

    limit: PageLimit = 20
    after: str | None = Field(
        default=None, description="The `last_id` of the previous page."
    )


class OrderedListQuery(ListQuery):
    """The page of a list that also begins with the oldest."""

    order: Literal["asc", "desc"] = Field(
        default="desc", description="`asc` begins with the oldest."
    )
