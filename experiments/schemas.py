"""The results of an experiment, as reports, the command and the studio have them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from experiments.comparison.inference import MeanEstimate
from experiments.config import StopRule, Strategy


class VariantResult(BaseModel):
    """The traffic and scores of one variant."""

    agent: str
    weight: float
    share: float = Field(description="The target share of users.")
    turns: int
    share_of_turns: float | None
    shadow_runs: int = Field(description="Runs whose replies users do not see.")
    is_primary: bool
    is_leader: bool
    is_undersampled: bool = Field(
        description="Whether a bandit explores it, because it has too few scores."
    )


class MetricResult(BaseModel):
    """The variants compared by one `judge.criterion`."""

    metric: str
    estimates: list[MeanEstimate]

    @property
    def leader(self) -> MeanEstimate | None:
        """The variant most likely to be the best; None with too few scores."""
        estimates = [each for each in self.estimates if each.best is not None]
        return max(estimates, key=lambda each: each.best or 0, default=None)


class BanditVariant(BaseModel):
    """A bandit's variant, with its recent scores."""

    agent: str
    count: int
    mean: float | None


class BanditState(BaseModel):
    """The state of a bandit."""

    metric: str
    epsilon: float
    min_samples: int
    window_seconds: int
    leader: str | None
    undersampled: list[str] = Field(
        description="Variants with too few scores; they receive all turns."
    )
    variants: list[BanditVariant]


class ExperimentResults(BaseModel):
    """The results of an experiment."""

    object: Literal["experiment"] = "experiment"
    name: str
    strategy: Strategy
    sticky_by_user: bool
    primary: str | None
    sampling_rate: float | None
    since: datetime | None = Field(
        description="Turns and scores count from this time on; null counts all."
    )
    variants: list[VariantResult]
    metrics: list[MetricResult]
    deciding: str | None = Field(description="The metric by which a variant wins.")
    stop_when: StopRule | None
    winner: str | None = Field(description="The winner by `stop_when`, if any.")
    result: str = Field(description="The winner, or why there is none.")
    bandit: BanditState | None
