"""Requests and responses of `/v1/threads`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints
from pydantic_core import PydanticCustomError

from access.users.request_user import CallerBody, CallerQuery
from api_base.field_types import (
    Instant,
    NullIfEmpty,
    UnixSeconds,
    refuse_nul,
)
from api_base.pagination import ListPage
from core.messages import Role
from memory.transcript.conversations import MAX_TITLE_LENGTH

MAX_MESSAGES = 200
"""Messages of one request that adds turns."""


def _refuse_future(at: datetime) -> datetime:
    if at > datetime.now(UTC):
        raise PydanticCustomError(
            "future", "is in the future: send the time it is from"
        )
    return at


Text = Annotated[str, StringConstraints(min_length=1), AfterValidator(refuse_nul)]


class ThreadChange(CallerBody):
    """Body of `PATCH /v1/threads/{id}`."""

    title: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=MAX_TITLE_LENGTH),
        AfterValidator(refuse_nul),
    ] = Field(description="An empty one removes it.")


class DeletionQuery(CallerQuery):
    """Query of `DELETE /v1/threads/{id}`."""

    facts: Literal["keep", "forget"] = Field(
        default="keep", description="What happens to the facts extracted from it."
    )
    confirmation: str | None = Field(
        default=None,
        max_length=1000,
        description="From the response to the first request.",
    )


class GivenMessage(BaseModel):
    """A message from elsewhere."""

    model_config = CallerBody.model_config

    role: Literal["user", "assistant"]
    content: Text
    created_at: Annotated[Instant, AfterValidator(_refuse_future)] | None = Field(
        default=None,
        description="The time it is from. Unset: that of the message before it in the "
        "turn, or now.",
    )


class NewMessages(CallerBody):
    """Body of `POST /v1/threads/{id}/messages`."""

    agent: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        description="The agent that replied; facts are extracted as for its turns."
    )
    messages: Annotated[
        list[GivenMessage], Field(min_length=1, max_length=MAX_MESSAGES)
    ] = Field(description="Whole turns: the user's messages, then the replies.")
    learn: bool = Field(
        default=True, description="Whether facts are extracted from them."
    )


class ThreadObject(BaseModel):
    id: str = Field(description="Its name, as in `metadata.thread_id`.")
    object: Literal["thread"] = "thread"
    title: NullIfEmpty
    metadata: dict[str, str]
    created_at: UnixSeconds
    updated_at: UnixSeconds


class ThreadMessage(BaseModel):
    id: str
    object: Literal["thread.message"] = "thread.message"
    role: Role
    content: str | list[dict[str, Any]] | None
    name: str | None
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    agent: NullIfEmpty
    completion_id: str = Field(description="The turn, for feedback.")
    created_at: UnixSeconds


class ThreadList(ListPage[ThreadObject]):
    pass


class ThreadMessageList(ListPage[ThreadMessage]):
    pass


class ThreadCounts(BaseModel):
    messages: int
    summaries: int
    facts: int = Field(description="Facts that are forgotten; 0 with `facts=keep`.")


class DeletionRequested(BaseModel):
    object: Literal["thread.deletion"] = "thread.deletion"
    id: str
    confirmation: str
    expires_at: datetime
    would_delete: ThreadCounts


class ThreadDeleted(BaseModel):
    object: Literal["thread.deleted"] = "thread.deleted"
    id: str
    deleted: ThreadCounts
