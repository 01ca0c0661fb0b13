"""Pydantic models of the requests and responses of the feedback API."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    StringConstraints,
    model_validator,
)

from access.users.request_user import CallerBody
from api_base.field_types import refuse_nul
from core.errors import Invalid
from judges.ratings.feedback import MAX_COMMENT_LENGTH, FeedbackInput, Thumb

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

    def to_input(self) -> FeedbackInput:
        """Return the feedback as the application's type."""
        return FeedbackInput(self.score, self.thumb, self.comment or "")


# Response models, used only for the API description: `judges.api` writes the responses.


class FeedbackObject(BaseModel):
    object: Literal["feedback"]
    message_id: str = Field(description="The `id` of the chat completion.")
    turn_id: str = Field(description="A UUID.")
    agent: str = Field(
        description="The agent that replied; for an experiment, the variant."
    )
    score: int | None
    thumb: Thumb | None
    comment: str | None
    created_at: datetime
    updated_at: datetime


class DeletedFeedback(BaseModel):
    object: Literal["feedback.deleted"]
    message_id: str
    deleted: Literal[True]
