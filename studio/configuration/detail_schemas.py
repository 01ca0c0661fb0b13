"""What is told beside the entries of each kind: how they do, who refers to them."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from studio.evaluation.experiment_results import ExperimentResults
from studio.evaluation.judge_views import JudgeScore
from studio.evaluation.smoke_schemas import ComparedMeasure, SmokeBatch


class LastDay(BaseModel):
    """The last 24 hours of an agent; money in micro-USD."""

    turns: int
    failed: int
    micro_usd: int = Field(description="As far as it is known.")
    unpriced: int = Field(description="Turns that cost more than is known.")
    mean_seconds: float | None


class AgentOverview(BaseModel):
    """Nothing, where it was not asked."""

    last_day: LastDay | None = None


class AgentReferenceDetail(BaseModel):
    """Something that names an agent."""

    kind: str
    name: str
    how: str


class AgentUse(BaseModel):
    """Something an agent may use."""

    kind: Literal["MCP", "agent", "memory", "skill", "tasks"]
    name: str
    what: str


class AgentDetails(BaseModel):
    """How an agent does, and what it goes with."""

    last_day: LastDay
    referred_by: list[AgentReferenceDetail]
    uses: list[AgentUse]
    settings: dict[str, JsonValue] = Field(
        description="What is in effect for it: its own fields, and the model's."
    )


class VariantWeek(BaseModel):
    """What a variant got in the last week."""

    agent: str
    turns: int
    share: float


class ExperimentOverview(BaseModel):
    """The last week; nothing, where none is in force."""

    turns: int = 0
    variants: list[VariantWeek] = []
    winner: str | None = Field(None, description="By its `stop_when`.")


class ExperimentDetails(BaseModel):
    """How it goes; nothing, where it is disabled."""

    results: ExperimentResults | None = None


class JudgeOverview(BaseModel):
    """The last week; nothing, where it is disabled."""

    count: int = 0
    mean: float | None = None
    failed: int = 0


class WindowMean(BaseModel):
    """Scores of some time."""

    mean: float | None
    count: int


class CriterionScores(BaseModel):
    """What is given by one criterion."""

    criterion: str
    windows: dict[str, WindowMean] = Field(description="Of `24h`, `7d` and `30d`.")


class AgentCriterionScores(CriterionScores):
    """What one agent is given."""

    agent: str


class DayScore(WindowMean):
    """What was given on one day, in UTC."""

    day: str
    criterion: str


class JudgeTaskCounts(BaseModel):
    """What fell to a judge in the last 7 days."""

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    skipped: dict[str, int] = Field(description="By why.")
    due: int


class JudgeCostTotal(BaseModel):
    """What a judge took in some time."""

    judgements: int
    micro_usd: int
    unpriced: int


class FailedJudging(BaseModel):
    """A reply that could not be scored."""

    task_id: UUID
    turn_id: UUID | None
    agent: str
    error: str
    failed_at: datetime | None


class AgentFeedback(BaseModel):
    """What people say of an agent."""

    agent: str
    scores: int
    mean: float | None
    up: int
    down: int
    comments: int


class FeedbackComment(BaseModel):
    """What somebody wrote of a reply."""

    turn_id: UUID
    agent: str
    score: int | None
    thumb: Literal["up", "down"] | None
    comment: str | None
    updated_at: datetime


class JudgeDetails(BaseModel):
    """What a judge gave, to whom, what it failed at, and what that cost."""

    means: list[CriterionScores]
    by_agent: list[AgentCriterionScores]
    days: list[DayScore]
    counts: JudgeTaskCounts
    spent: dict[str, JudgeCostTotal] = Field(description="In `24h`, `7d` and `30d`.")
    failures: list[FailedJudging]
    recent: list[JudgeScore]
    judged_agents: list[str]
    people: list[AgentFeedback]
    comments: list[FeedbackComment]


class SmokeTestOverview(BaseModel):
    """Its last batch, and when it is launched next; nothing, where it is disabled."""

    last: SmokeBatch | None = None
    next_at: datetime | None = None


class SmokeTestDetails(BaseModel):
    """Its newest batches."""

    next_at: datetime | None
    batches: list[SmokeBatch]
    has_more: bool
    compared: list[ComparedMeasure]


DETAIL_SCHEMAS: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "agents": (AgentOverview, AgentDetails),
    "experiments": (ExperimentOverview, ExperimentDetails),
    "judges": (JudgeOverview, JudgeDetails),
    "smoke": (SmokeTestOverview, SmokeTestDetails),
}
"""By the path of the kind: in a list, and of one."""
