"""OpenAI's requests for conversations as pydantic models.

Source: OpenAI's API reference, "Conversations".
"""

from typing import Annotated

from pydantic import Field

from access.users.request_user import CallerBody
from api_base.field_types import Metadata
from gateway.openai.responses.schemas import InputItem
from gateway.schemas import Items

MAX_ITEMS = 20
"""Items of one request; OpenAI's limit."""


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
