"""Requests and responses about smoke runs."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from api_base.field_types import NullIfEmpty
from telemetry.schemas import ModelCallObject, ToolCallObject

FROM_MODEL = ConfigDict(from_attributes=True)
SmokeOutcome = Literal["passed", "failed", "aborted", "open"]


class SmokeLaunch(BaseModel):
    """The number of runs to launch."""

    model_config = ConfigDict(extra="forbid")

    repetitions: int | None = Field(
        None,
        ge=1,
        le=1_000,
        description="The number of runs; by default the test's own.",
    )


class SmokeCancel(BaseModel):
    """The runs to cancel."""

    model_config = ConfigDict(extra="forbid")

    batch: bool = Field(False, description="Whether to cancel the whole batch.")


class SmokeRunSummary(BaseModel):
    """The state of one conversation."""

    model_config = FROM_MODEL

    id: UUID
    repetition: int
    state: Literal["queued", "running", "judging", "done", "failed", "cancelled"]
    outcome: SmokeOutcome
    agent: NullIfEmpty
    turns: int


class SmokeScoreMean(BaseModel):
    """The mean score by one criterion."""

    mean: float
    count: int


class SmokeBatch(BaseModel):
    """The runs launched together."""

    object: Literal["smoke.batch"] = "smoke.batch"
    id: UUID
    test: str
    target: str
    origin: str = Field(
        description="The source of the launch: `command`, `schedule` or `studio`."
    )
    created_at: datetime
    passed: int
    failed: int
    aborted: int = Field(description="Runs that failed to finish, or were cancelled.")
    open: int
    scores: dict[str, dict[str, SmokeScoreMean]] = Field(
        description="By agent and `judge.criterion`."
    )
    means: dict[str, float] = Field(description="By `judge.criterion`, of all agents.")
    cost_usd: float | None
    runs: list[SmokeRunSummary]


class SmokeMessageScore(BaseModel):
    """A judge's score of a reply."""

    model_config = FROM_MODEL

    judge: str
    criterion: str
    value: int
    reasoning: NullIfEmpty


class SmokeRunMessage(BaseModel):
    """A message of one side."""

    model_config = FROM_MODEL

    position: int
    speaker: Literal["persona", "assistant"]
    text: str
    agent: NullIfEmpty
    turn_id: UUID | None
    calls: list[ModelCallObject | ToolCallObject] = Field(
        description="Calls of models and tools, with their nested calls."
    )
    cost_usd: float | None
    seconds: float
    sent_at: datetime
    scores: list[SmokeMessageScore]


class ComparedMeasure(BaseModel):
    """One measure of a batch and of the previous one."""

    measure: str
    unit: Literal["share", "score", "turns", "seconds", "usd"]
    now: float | None
    before: float | None
    change: float | None
    is_better: bool | None


class SmokeExpectation(BaseModel):
    """A condition that a run must meet to pass."""

    condition: str
    is_met: bool | None = Field(description="null while the run is open.")


class SmokeRunObject(SmokeRunSummary):
    """A conversation without its messages."""

    object: Literal["smoke.run"] = "smoke.run"
    batch: UUID
    test: str
    target: str
    user_id: UUID = Field(description="The synthetic user.")
    origin: str
    stopped_because: NullIfEmpty
    verdict: NullIfEmpty
    failures: list[str] = Field(description="Expectations that are not met.")
    error: NullIfEmpty
    scores: dict[str, SmokeScoreMean]
    unscored: dict[str, str] = Field(
        description="Reasons for missing scores, by judge."
    )
    cost_usd: float | None
    persona_cost_usd: float | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class SmokeTranscript(SmokeRunObject):
    """A conversation with its messages."""

    transcript: list[SmokeRunMessage]


class SmokeRunDetail(SmokeTranscript):
    """A conversation with all its messages."""

    expected: list[SmokeExpectation]
    batch_runs: list[SmokeRunSummary] = Field(
        description="All runs of its batch, including this one."
    )
    compared: list[ComparedMeasure] = Field(
        description="Its batch and the previous one, once both have results."
    )


class SmokeBatchReport(SmokeBatch):
    """The runs launched together, with all of their fields."""

    runs: list[SmokeRunObject]  # type: ignore[assignment]  # more of each
