"""Response schemas of the overview and the details of each kind of entry."""

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
    micro_usd: int = Field(description="Without the unpriced turns.")
    unpriced: int = Field(description="Turns with a call that has no price.")
    mean_seconds: float | None


class AgentOverview(BaseModel):
    """The last day of an agent; empty unless requested."""

    last_day: LastDay | None = None


class AgentReferenceDetail(BaseModel):
    """A configuration entry that names an agent."""

    kind: str
    name: str
    relation: str


class AgentUse(BaseModel):
    """Something an agent may use."""

    kind: Literal["MCP", "agent", "memory", "skill", "tasks"]
    name: str
    detail: str


class AgentDetails(BaseModel):
    """The activity of an agent, its references, tools and effective settings."""

    last_day: LastDay
    references: list[AgentReferenceDetail]
    uses: list[AgentUse]
    settings: dict[str, JsonValue] = Field(
        description="The agent's own fields and its model parameters."
    )


class VariantWeek(BaseModel):
    """A variant's share and scores in the last week."""

    agent: str
    turns: int
    share: float


class ExperimentOverview(BaseModel):
    """The last week; empty if the experiment is disabled."""

    turns: int = 0
    variants: list[VariantWeek] = []
    winner: str | None = Field(None, description="The winner by `stop_when`, if any.")


class ExperimentDetails(BaseModel):
    """The results of an experiment; empty if it is disabled."""

    results: ExperimentResults | None = None


class JudgeOverview(BaseModel):
    """The last week; empty if the judge is disabled."""

    count: int = 0
    mean: float | None = None
    failed: int = 0


class WindowMean(BaseModel):
    """Mean scores in a time window."""

    mean: float | None
    count: int


class CriterionScores(BaseModel):
    """Mean scores by one criterion."""

    criterion: str
    windows: dict[str, WindowMean] = Field(description="For `24h`, `7d` and `30d`.")


class AgentCriterionScores(CriterionScores):
    """The scores of one agent."""

    agent: str


class DayScore(WindowMean):
    """The scores of one day, in UTC."""

    day: str
    criterion: str


class JudgeTaskCounts(BaseModel):
    """A judge's tasks in the last 7 days."""

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    skipped: dict[str, int] = Field(description="By reason.")
    selected: int = Field(description="The sum of all states.")


class JudgeCostTotal(BaseModel):
    """A judge's cost in a time window."""

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
    """Users' feedback on an agent."""

    agent: str
    scores: int
    mean: float | None
    up: int
    down: int
    comments: int


class FeedbackComment(BaseModel):
    """A user's comment on a reply."""

    turn_id: UUID
    agent: str
    score: int | None
    thumb: Literal["up", "down"] | None
    comment: str | None
    updated_at: datetime


class JudgeDetails(BaseModel):
    """A judge's scores, by agent, with its failures and costs."""

    means: list[CriterionScores]
    by_agent: list[AgentCriterionScores]
    days: list[DayScore]
    counts: JudgeTaskCounts
    costs: dict[str, JudgeCostTotal] = Field(description="For `24h`, `7d` and `30d`.")
    failures: list[FailedJudging]
    recent: list[JudgeScore]
    judged_agents: list[str]
    feedback: list[AgentFeedback]
    comments: list[FeedbackComment]


class SmokeTestOverview(BaseModel):
    """The last batch and the next launch; empty if the test is disabled."""

    last: SmokeBatch | None = None
    next_at: datetime | None = None


class SmokeTestDetails(BaseModel):
    """The newest batches of a smoke test."""

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
"""The schemas of the overview and of the details, by the path of the kind."""
