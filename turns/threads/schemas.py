"""Requests and responses of `/v1/threads`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from access.users.request_user import CallerBody, CallerQuery
from agents.state.config import MAX_FIELDS
from agents.state.reducers import Fields, StateChange, reduce_state
from api_base.field_types import (
    Instant,
    NullIfEmpty,
    UnixSeconds,
    refuse_nul,
)
from api_base.pagination import ListPage
from core.messages import Role
from memory.api.schemas import FactId
from memory.config import MAX_COMMENT_LENGTH
from memory.models import AgentState
from memory.transcript.conversations import MAX_TITLE_LENGTH
from turns.preparation.options import DEFAULT_THREAD

SESSION_PREFIX = "sess_"
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


AgentName = Annotated[
    str, StringConstraints(min_length=1, max_length=255), AfterValidator(refuse_nul)
]


class ThreadStateQuery(CallerQuery):
    """Query of `GET /v1/threads/{id}/state`."""

    agent: AgentName = Field(description="The agent whose state it is.")


class StateChangeBody(CallerBody):
    """Body of `PATCH /v1/threads/{id}/state`."""

    agent: AgentName = Field(description="The agent whose state it is.")
    changes: dict[str, Any] = Field(
        default={},
        max_length=MAX_FIELDS,
        description="New values by field, which its reducer combines with the stored "
        "one.",
    )
    reset: list[str] = Field(
        default=[],
        max_length=MAX_FIELDS,
        description="Fields that are emptied first.",
    )


class ThreadState(BaseModel):
    object: Literal["thread.state"] = "thread.state"
    thread_id: str
    agent: str
    state: dict[str, Any] = Field(description="The values of its fields.")
    updated_at: UnixSeconds | None = Field(description="Null before the first change.")

    @classmethod
    def of(cls, thread_id: str, row: AgentState, fields: Fields) -> Self:
        """Return the values of the fields that are declared now."""
        return cls(
            thread_id=thread_id,
            agent=row.agent,
            state=reduce_state(fields, row.values, StateChange(), is_bounded=False),
            updated_at=row.updated_at,
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


class SessionEnd(CallerBody):
    """Body of `POST /v1/threads/{id}/end`."""

    agent: AgentName | None = Field(
        default=None,
        description="The agent whose thread it is, if it has threads of its own.",
    )
    score: Annotated[int, Field(ge=0, le=10)] | None = Field(
        default=None,
        description="How the user rates the session, from 0 (useless) to 10 (perfect).",
    )
    comment: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=MAX_COMMENT_LENGTH),
        AfterValidator(refuse_nul),
    ] = ""


SessionId = Annotated[
    str, BeforeValidator(lambda key: f"{SESSION_PREFIX}{getattr(key, 'hex', key)}")
]


class SessionObject(BaseModel):
    """An ended session of a thread."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    id: SessionId = Field(description="`sess_` and 32 hexadecimal digits.")
    object: Literal["thread.session"] = "thread.session"
    thread_id: Annotated[str, BeforeValidator(lambda name: name or DEFAULT_THREAD)] = (
        Field(validation_alias=AliasPath("thread", "name"))
    )
    state: Literal["ending", "closed"] = Field(
        description="`ending` until its episode is written."
    )
    reason: Literal["request", "idle", "shutdown"]
    started_at: UnixSeconds
    ended_at: UnixSeconds
    episode: str | None = Field(
        validation_alias="episode_text", description="What happened in it."
    )
    memory_id: FactId | None = Field(
        validation_alias="episode_id", description="The memory that has the episode."
    )
    score: int | None
    comment: NullIfEmpty


class SessionList(ListPage[SessionObject]):
    pass


class ThreadCounts(BaseModel):
    messages: int
    summaries: int
    facts: int = Field(
        description="Facts that are forgotten, and those recalled in the thread only."
    )


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
