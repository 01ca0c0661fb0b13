"""Requests and responses of the feedback API, and the rows of the studio."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from access.users.request_user import CallerBody
from api_base.field_types import NullIfEmpty, refuse_nul
from core.errors import Invalid
from telemetry.types import Origin

Thumb = Literal["up", "down"]
MAX_COMMENT_LENGTH = 4_000
"""Characters."""

CommentText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=MAX_COMMENT_LENGTH),
    AfterValidator(refuse_nul),
]


class NewFeedback(CallerBody):
    """Body of `POST /v1/feedback`."""

    message_id: str = Field(
        description="The `id` of the chat completion, or the turn's UUID."
    )
    score: int | None = Field(
        default=None, ge=0, le=10, description="From 0 (useless) to 10 (perfect)."
    )
    thumb: Thumb | None = Field(default=None, description="Instead of a score.")
    comment: CommentText | None = Field(default=None, description="The reason.")

    @model_validator(mode="after")
    def _require_one_rating(self) -> Self:
        if self.score is None and self.thumb is None:
            raise Invalid(
                "the feedback is empty: send 'score' (0 to 10) or 'thumb' (up or down)",
                param="score",
                code="feedback_empty",
            )
        if self.score is not None and self.thumb is not None:
            raise Invalid(
                "'score' and 'thumb' exclude each other: send one of them",
                param="thumb",
                code="feedback_ambiguous",
            )
        return self


class FeedbackFields(BaseModel):
    """What every response about feedback has."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    agent: str = Field(
        description="The agent that replied; for an experiment, the variant."
    )
    score: int | None
    thumb: Thumb | None
    comment: NullIfEmpty
    created_at: datetime
    updated_at: datetime


class FeedbackObject(FeedbackFields):
    object: Literal["feedback"] = "feedback"
    message_id: str = Field(
        validation_alias="completion_id", description="The `id` of the chat completion."
    )
    turn_id: Annotated[str, BeforeValidator(str)] = Field(description="A UUID.")


class DeletedFeedback(BaseModel):
    object: Literal["feedback.deleted"] = "feedback.deleted"
    message_id: str
    deleted: Literal[True] = True


class ScoreFields(BaseModel):
    """What every response about a score has."""

    model_config = ConfigDict(from_attributes=True)

    turn_id: UUID
    judge: str
    criterion: str
    agent: str
    experiment: NullIfEmpty
    origin: Origin
    judged_at: datetime


class StudioScore(ScoreFields):
    """A judge's score of a reply by one criterion."""

    id: int
    run_id: UUID | None = Field(
        None, description="The smoke run that was scored, if any."
    )
    user_id: UUID
    value: int
    reasoning: NullIfEmpty


class StudioFeedback(FeedbackFields):
    """A user's feedback on a reply."""

    id: UUID
    turn_id: UUID
    user_id: UUID
    experiment: NullIfEmpty


class FailedJudging(BaseModel):
    """The task of a reply that could not be scored."""

    task_id: UUID = Field(validation_alias=AliasChoices("pk", "task_id"))
    turn_id: UUID | None
    agent: str
    error: str
    failed_at: datetime | None = Field(
        validation_alias=AliasChoices("finished_at", "failed_at")
    )


class PastRepliesRequest(BaseModel):
    """The selection of past replies to score."""

    model_config = ConfigDict(extra="forbid")

    since: str = Field("7d", description="`24h`, `7d` or `2026-11-01`.")
    sample: float = Field(1.0, gt=0, le=1, description="The share of the replies.")
    limit: int = Field(
        100, ge=1, le=1_000, description="The largest number of replies, newest first."
    )
    agent: str | None = Field(
        None, description="The agent; by default, all agents that name the judge."
    )


class BackfillEstimate(BaseModel):
    """The number of replies to score, and the approximate cost."""

    judge: str
    found: int = Field(description="The sum of the next five.")
    judged: int = Field(description="Replies that have scores.")
    in_progress: int = Field(description="Queued or running.")
    skipped: int = Field(description="Skipped or cancelled.")
    failed: int
    pending: int = Field(description="Replies to score.")
    tokens: int
    cost_usd: float | None = Field(description="null if the model has no price.")
    queued: int = Field(0, description="Replies that this request queued.")
