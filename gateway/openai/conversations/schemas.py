"""OpenAI's requests for conversations as pydantic models.

Source: OpenAI's API reference, "Conversations".
"""

from typing import Annotated

from pydantic import Field

from access.users.request_user import CallerBody, CallerQuery
from api_base.field_types import Metadata
from gateway.openai.responses.api import ItemsQuery
from gateway.openai.responses.schemas import InputItem
from gateway.schemas import Items

MAX_INCLUDED = 20
MAX_ITEMS = 20
"""Items of one request; OpenAI's limit."""


class IncludeQuery(CallerQuery):
    """The query of items, which OpenAI's clients may send."""

    include: list[str] = Field(
        default=[],
        alias="include[]",
        max_length=MAX_INCLUDED,
        description="Ignored: items have no optional parts here.",
    )


class ListQuery(ItemsQuery, IncludeQuery):
    """The query of a list of items."""


class NewConversation(CallerBody):
    """Body of `POST /v1/conversations`."""

    items: Annotated[Items[InputItem], Field(max_length=MAX_ITEMS)] | None = None
    metadata: Metadata | None = None


class ConversationChange(CallerBody):
    """Body of `POST /v1/conversations/{id}`."""

    metadata: Metadata | None


class NewItems(CallerBody):
    """Body of `POST /v1/conversations/{id}/items`."""

    items: Annotated[Items[InputItem], Field(min_length=1, max_length=MAX_ITEMS)]
