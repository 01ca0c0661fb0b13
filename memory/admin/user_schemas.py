"""Response schemas of the studio's pages about users."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from api_base.field_types import NullIfEmpty

FROM_MODEL = ConfigDict(from_attributes=True, populate_by_name=True)
MicroUsd = Annotated[int, Field(description="Millionths of a US dollar.")]


class ListedUser(BaseModel):
    """A user in the list."""

    model_config = FROM_MODEL

    object: Literal["user"] = "user"
    id: UUID
    name: str | None = Field(description="From a token or the configuration.")
    active_at: datetime
    threads: int
    messages: int
    facts: int = Field(description="Active facts.")
    turns: int = Field(description="In the last 30 days.")
    spent_micro_usd: MicroUsd = Field(description="In the last 30 days.")
    unpriced_turns: int


class UserLimit(BaseModel):
    """A limit of the configuration that applies to a user."""

    model_config = FROM_MODEL

    limit: str = Field(validation_alias="label")
    unit: Literal["requests", "tokens", "micro_usd", "turns"]
    used: int
    maximum: int
    share: float
    resets_at: datetime | None


class UserSummary(BaseModel):
    """The summary of a user."""

    model_config = FROM_MODEL

    object: Literal["user"] = "user"
    id: UUID
    name: str | None
    first_seen_at: datetime | None
    last_seen_at: datetime | None = Field(validation_alias="active_at")
    time_zone: NullIfEmpty
    recall: bool = Field(description="Whether agents use what is stored.")
    learning: bool = Field(description="Whether facts are learned.")
    threads: int
    messages: int
    facts: dict[str, int] = Field(description="By status.")
    turns: int = Field(description="Recorded turns.")
    spent_micro_usd: MicroUsd
    unpriced_turns: int
    limits: list[UserLimit]


class ErasedUser(BaseModel):
    """The number of deleted rows."""

    object: Literal["user.erased"] = "user.erased"
    user_id: UUID
    deleted: dict[str, int] = Field(description="Rows by table.")


class ErasurePreview(BaseModel):
    """The number of rows that an erasure would delete."""

    object: Literal["user.erasure"] = "user.erasure"
    user_id: UUID
    would_delete: dict[str, int] = Field(description="Rows by table.")


class UserThread(BaseModel):
    """One conversation of a user."""

    model_config = FROM_MODEL

    object: Literal["thread"] = "thread"
    thread_id: NullIfEmpty = Field(
        validation_alias="name", description="Null for the default thread."
    )
    messages: int = Field(validation_alias="length")
    created_at: datetime
    updated_at: datetime


class StudioThread(UserThread):
    """A conversation, and its user."""

    id: int
    user_id: UUID


class StudioSession(BaseModel):
    """An ended session of a thread."""

    model_config = FROM_MODEL

    object: Literal["session"] = "session"
    id: UUID
    user_id: UUID
    thread: NullIfEmpty = Field(validation_alias=AliasPath("thread", "name"))
    state: Literal["ending", "closed"]
    reason: Literal["request", "idle", "shutdown"]
    started_at: datetime
    ended_at: datetime
    first_position: int
    end_position: int
    episode: str | None = Field(validation_alias="episode_text")
    error: NullIfEmpty
    score: int | None
    comment: NullIfEmpty


class MessageFields(BaseModel):
    """What every shape of a message has."""

    model_config = FROM_MODEL

    object: Literal["message"] = "message"
    position: int
    turn_id: UUID
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    parts: list[str] = Field(description="The names of its images and files.")
    tokens: int
    agent: NullIfEmpty
    finish_reason: NullIfEmpty
    importance: float
    created_at: datetime
    is_active: bool = Field(
        description="False on another branch than the thread's current one."
    )
    is_withheld: bool = Field(
        description="Whether no model receives it: it tells a forgotten fact, or was "
        "refused by a safety check."
    )


class StudioMessage(MessageFields):
    """A message of any conversation."""

    id: int
    user_id: UUID = Field(validation_alias=AliasPath("thread", "user_id"))
    thread_id: NullIfEmpty = Field(
        validation_alias=AliasPath("thread", "name"),
        description="Null for the default thread.",
    )
