"""Request and response schemas of the pages about users."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from api_base.field_types import Instant, parse_instant
from memory.api.schemas import FactChangeFields, NewFactFields
from memory.facts.types import Category
from telemetry.schemas import TurnUsage

MicroUsd = Annotated[int, Field(description="Millionths of a US dollar.")]


class ListedUser(BaseModel):
    """A user in the list."""

    object: Literal["user"]
    id: UUID
    name: str | None = Field(description="From a token or the configuration.")
    active_at: datetime
    threads: int
    messages: int
    facts: int = Field(description="Active facts.")
    turns: int = Field(description="In the last 30 days.")
    spent_micro_usd: MicroUsd = Field(description="In the last 30 days.")
    unpriced_turns: int


class UserList(BaseModel):
    """A page of users, most recently active first."""

    object: Literal["list"] = "list"
    data: list[ListedUser]
    has_more: bool
    last_id: str | None


class MeanScore(BaseModel):
    """A judge's mean score by one criterion."""

    judge: str
    criterion: str
    mean: float
    count: int


class UserLimit(BaseModel):
    """A limit of the configuration that applies to a user."""

    limit: str
    unit: Literal["requests", "tokens", "micro_usd", "turns"]
    used: int
    maximum: int
    share: float
    resets_at: datetime | None


class UserSummary(BaseModel):
    """The summary of a user."""

    object: Literal["user"]
    id: UUID
    name: str | None
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    time_zone: str | None
    threads: int
    messages: int
    facts: dict[str, int] = Field(description="By status.")
    turns: int = Field(description="Recorded turns.")
    spent_micro_usd: MicroUsd
    unpriced_turns: int
    scores: list[MeanScore]
    limits: list[UserLimit]


class ErasedUser(BaseModel):
    """The number of deleted rows."""

    object: Literal["user.erased"]
    user_id: UUID
    deleted: dict[str, int] = Field(description="Rows by table.")


class ErasurePreview(BaseModel):
    """The number of rows that an erasure would delete."""

    object: Literal["user.erasure"]
    user_id: UUID
    would_delete: dict[str, int] = Field(description="Rows by table.")


class UserThread(BaseModel):
    """One conversation of a user."""

    object: Literal["thread"]
    thread_id: str | None = Field(description="Null for the default thread.")
    messages: int
    created_at: datetime
    updated_at: datetime


class UserThreadList(BaseModel):
    """A page of threads, most recently active first."""

    object: Literal["list"] = "list"
    data: list[UserThread]
    has_more: bool
    last_id: str | None


class TurnScore(BaseModel):
    """A judge's score of a turn's reply by one criterion."""

    judge: str
    criterion: str
    value: int
    reasoning: str | None
    judged_at: datetime


class UserScore(TurnScore):
    """A score and its turn."""

    turn_id: UUID
    agent: str
    experiment: str | None


class TurnFeedback(BaseModel):
    """The user's feedback on a turn's reply."""

    score: int | None
    thumb: Literal["up", "down"] | None
    comment: str | None
    updated_at: datetime


class UserFeedback(TurnFeedback):
    """Feedback and its turn."""

    turn_id: UUID
    agent: str
    experiment: str | None


class ScoreList(BaseModel):
    """A page of scores, newest first, with the means of all and the feedback."""

    object: Literal["list"] = "list"
    data: list[UserScore]
    has_more: bool
    last_id: str | None
    means: list[MeanScore]
    feedback: list[UserFeedback]


class FactSummary(BaseModel):
    """A fact that was extracted from a message, or recalled by a turn."""

    id: str
    content: str
    category: Category
    status: str


class MessageCall(BaseModel):
    """A tool call of the agent; long texts are truncated."""

    name: str
    kind: str
    target: str | None
    seconds: float | None
    arguments: str
    result: str | None
    error: str | None


class MessageTurn(BaseModel):
    """The recorded turn that a message ends."""

    id: UUID
    object: Literal["turn"]
    completion_id: str
    agent: str
    experiment: str | None
    variant: str | None
    origin: str
    stream: bool
    started_at: datetime
    seconds: float
    outcome: str
    finish_reason: str | None
    usage: TurnUsage
    cost_usd: float | None
    request_id: str | None
    error: str | None


class ThreadMessage(BaseModel):
    """A message; a turn's last one includes the turn."""

    object: Literal["message"]
    position: int
    turn_id: UUID
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    parts: list[str] = Field(description="The names of its images and files.")
    tokens: int
    agent: str | None
    finish_reason: str | None
    importance: float
    summarized: bool
    created_at: datetime
    extracted_facts: list[FactSummary]
    calls: list[MessageCall] = []
    turn: MessageTurn | None = None
    scores: list[TurnScore] = []
    feedback: TurnFeedback | None = None


class FailedTurn(MessageTurn):
    """A turn that failed without a message."""

    user_id: UUID
    thread_id: str | None
    user_message: str


class ThreadMessageList(BaseModel):
    """Messages of a thread, oldest first, with the failed turns between them."""

    object: Literal["list"] = "list"
    thread: UserThread | None
    data: list[ThreadMessage | FailedTurn]
    has_more: bool = Field(description="Whether there are earlier ones.")
    first_position: int | None = Field(description="`before` of the previous page.")


def _parse_form_instant(value: Any) -> Any:
    """Return an instant of a form; a date means its start in UTC."""
    if isinstance(value, str) and len(value) == len("2026-01-31"):
        value = f"{value}T00:00:00Z"
    return value if value is None else parse_instant(value)


FormInstant = Annotated[Instant | None, BeforeValidator(_parse_form_instant)]


class FactDates(BaseModel):
    """When a fact is true, and how long it is kept."""

    model_config = ConfigDict(extra="forbid")

    valid_from: FormInstant = None
    valid_to: FormInstant = None
    expires_at: FormInstant = None

    @model_validator(mode="after")
    def _check_expiry(self) -> Self:
        if self.expires_at is not None and self.expires_at <= datetime.now(UTC):
            raise ValueError(
                "'expires_at' is in the past; set a later time, or delete the fact"
            )
        return self


class NewFact(FactDates, NewFactFields):
    """A fact that an operator adds."""

    supersedes: str | None = Field(
        default=None, description="The id of the fact that this one replaces."
    )


class FactChanges(FactDates, FactChangeFields):
    """The changes of a fact; null clears an optional field."""
