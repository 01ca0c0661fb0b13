"""Responses of the pages about a user that join the rows of several apps."""

from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from api_base.field_types import NullIfEmpty
from core.text.redaction import redact_own
from judges.schemas import StudioFeedback, StudioScore, Thumb
from memory.admin.user_schemas import MessageFields, UserThread
from memory.api.schemas import FactId
from memory.facts.types import AnyCategory
from telemetry.schemas import Error, RowObject, Text, TurnSummary

MAX_TEXT_LENGTH = 4_000
"""Characters of a text of a call; the turn's own page has the rest."""


class MeanScore(RowObject):
    """A judge's mean score by one criterion."""

    judge: str
    criterion: str
    mean: float
    count: int


class TurnScore(RowObject):
    """A judge's score of a turn's reply by one criterion."""

    judge: str
    criterion: str
    value: int
    reasoning: NullIfEmpty
    judged_at: datetime


class TurnFeedback(RowObject):
    """The user's feedback on a turn's reply."""

    score: int | None
    thumb: Thumb | None
    comment: Annotated[
        str | None, BeforeValidator(lambda text: redact_own(text or "") or None)
    ]
    updated_at: datetime


class ScoreList(BaseModel):
    """A page of scores, newest first, with the means of all and the feedback."""

    object: Literal["list"] = "list"
    data: list[StudioScore]
    has_more: bool
    last_id: str | None
    means: list[MeanScore]
    feedback: list[StudioFeedback]


class FactSummary(RowObject):
    """A fact that was extracted from a message, or recalled by a turn."""

    id: FactId
    content: Annotated[str, AfterValidator(redact_own)]
    category: AnyCategory
    status: str


class TurnExtraction(RowObject):
    """The extraction of facts from a turn."""

    state: str
    found: int = Field(description="Facts that the model proposed.")
    written: int
    held: int = Field(description="Facts that wait for a review.")
    dropped: int = Field(description="Known, unfounded or outdated ones.")
    skipped: NullIfEmpty = Field(description="Why nothing was extracted.")


def _truncate(text: str | None) -> str | None:
    if text is None or len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]}…"


Truncated = AfterValidator(_truncate)


class MessageCall(RowObject):
    """A tool call of the agent; long texts are truncated."""

    name: str
    kind: str = "unknown"
    target: NullIfEmpty = None
    seconds: float | None = None
    arguments: Annotated[str, Truncated]
    result: Annotated[str | None, Truncated]
    error: Annotated[str | None, Truncated] = None


class FailedTurn(TurnSummary):
    """A turn that failed without a message."""

    error: Error


class MessageTurn(FailedTurn):
    """The recorded turn that a message ends."""

    user_id: Text = Field(exclude=True)
    thread_id: NullIfEmpty = Field(validation_alias="thread", exclude=True)
    user_message: str = Field(exclude=True)


class ThreadMessage(MessageFields):
    """A message; a turn's last one includes the turn."""

    summarized: bool = Field(validation_alias="is_summarized")
    extracted_facts: list[FactSummary]
    calls: list[MessageCall] = []
    turn: MessageTurn | None = None
    scores: list[TurnScore] = []
    feedback: TurnFeedback | None = None


class StoredState(RowObject):
    """What an agent keeps of a thread."""

    agent: str
    state: dict[str, Any] = Field(validation_alias="values")
    updated_at: datetime

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The fields, and their values as JSON."""
        values = self.state.items()
        return [(name, orjson.dumps(value).decode()) for name, value in values]


class ThreadMessageList(BaseModel):
    """Messages of a thread, oldest first, with the failed turns between them."""

    object: Literal["list"] = "list"
    thread: UserThread | None
    states: list[StoredState] = Field(
        default=[], description="What agents keep of the thread."
    )
    data: list[ThreadMessage | FailedTurn]
    has_more: bool = Field(description="Whether there are earlier ones.")
    first_position: int | None = Field(description="`before` of the previous page.")
