"""Response schemas of the overview and the details of each kind of entry."""

from datetime import datetime

from pydantic import BaseModel, Field

from experiments.schemas import ExperimentResults
from judges.models import JudgingCounts
from judges.schemas import FailedJudging, StudioFeedback, StudioScore
from smoke.schemas import ComparedMeasure, SmokeBatch
from studio.configuration.agent_details import AgentDetails, AgentOverview


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


class JudgeCostTotal(BaseModel):
    """A judge's cost in a time window."""

    judgements: int
    micro_usd: int
    unpriced: int


class AgentFeedback(BaseModel):
    """Users' feedback on an agent."""

    agent: str
    scores: int
    mean: float | None
    up: int
    down: int
    comments: int


class JudgeDetails(BaseModel):
    """A judge's scores, by agent, with its failures and costs."""

    means: list[CriterionScores]
    by_agent: list[AgentCriterionScores]
    days: list[DayScore]
    counts: JudgingCounts = Field(description="Of the last 7 days.")
    costs: dict[str, JudgeCostTotal] = Field(description="For `24h`, `7d` and `30d`.")
    failures: list[FailedJudging]
    recent: list[StudioScore]
    judged_agents: list[str]
    feedback: list[AgentFeedback]
    comments: list[StudioFeedback]


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
