"""Results of experiments: traffic, scores, and the current bandit choice."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from config import live
from config.validation.named_lists import get_by_name
from core.errors import NotFound
from core.text import time_parsing
from experiments.comparison import comparison_formats, comparison_report
from experiments.config import EXPERIMENTS, ExperimentConfig, StopRule
from studio.base.views import StudioView
from telemetry.statistics import variant_counts

EXPERIMENTS_URL = "/admin/experiments"
WEEK = timedelta(days=7)


class ExperimentUnknown(NotFound):
    """There is no such experiment."""

    code = "experiment_not_found"


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


class VariantEstimate(BaseModel):
    """The estimate of a variant's mean."""

    agent: str
    count: int
    mean: float | None
    low: float | None = Field(description="The lower bound of the 95 % interval.")
    high: float | None = Field(description="The upper bound of the 95 % interval.")
    best: float | None = Field(description="The probability of being best.")


class MetricResult(BaseModel):
    """The variants compared by one `judge.criterion`."""

    metric: str
    estimates: list[VariantEstimate]


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

    object: Literal["experiment"]
    name: str
    strategy: Literal["split", "shadow", "bandit"]
    sticky_by_user: bool
    primary: str | None
    sampling_rate: float | None
    since: datetime | None
    variants: list[VariantResult]
    metrics: list[MetricResult]
    deciding: str | None
    stop_when: StopRule | None
    winner: str | None
    result: str
    bandit: BanditState | None


def load_overview() -> Mapping[str, Any]:
    """Return the last week's traffic by variant, and the winner; in two queries."""
    config, since = live.current(), datetime.now(UTC) - WEEK
    experiments = config.get(EXPERIMENTS)
    counts = variant_counts.counts_by_experiment(experiments.keys(), since)
    winners = comparison_report.find_winners(config, experiments.values())
    return {
        name: {
            **_week_summary(experiment, counts.get(name, {})),
            "winner": winners.get(name),
        }
        for name, experiment in experiments.items()
    }


def _week_summary(
    experiment: ExperimentConfig, counts: Mapping[str, int]
) -> dict[str, Any]:
    turns = {agent: counts.get(agent, 0) for agent in experiment.agents}
    total = sum(turns.values())
    return {
        "turns": total,
        "variants": [
            {"agent": agent, "turns": count, "share": count / total if total else 0.0}
            for agent, count in turns.items()
        ],
    }


def load_details(name: str, experiment: ExperimentConfig | None) -> Mapping[str, Any]:
    """Return an experiment's results; empty if it is disabled."""
    return {} if experiment is None else {"results": load_results(experiment)}


def load_results(
    experiment: ExperimentConfig, since: datetime | None = None
) -> dict[str, Any]:
    """Return an experiment's results since an instant.

    By default, those of a bandit cover its window, and others all turns.
    """
    report = comparison_report.build_report(live.current(), experiment, since)
    return comparison_formats.as_json(report)


class ExperimentResultsView(StudioView):
    """`/admin/experiments/{name}/results`."""

    template = "studio/experiments/results.html"

    @extend_schema(
        summary="Show the results of an experiment",
        parameters=[
            OpenApiParameter(
                "since", str, description="`24h`, `7d` or `2026-11-01`; by default all."
            )
        ],
        responses=ExperimentResults,
    )
    def get(self, request: Request, name: str) -> Response:
        """Return traffic, means with intervals, probabilities, and a bandit's state."""
        self.title = f"Results of {name}"
        self.breadcrumbs = [
            ("Experiments", EXPERIMENTS_URL),
            (name, f"{EXPERIMENTS_URL}/{quote(name, safe='')}"),
        ]
        since = request.query_params.get("since")
        begin = time_parsing.parse_past(since, datetime.now(UTC)) if since else None
        results = load_results(_find_experiment(name), begin)
        return self.respond(results, page=lambda: {"results": results})


def _find_experiment(name: str) -> ExperimentConfig:
    """Return an experiment by its name; raises `ExperimentUnknown`."""
    experiments = live.current().get(EXPERIMENTS)
    return get_by_name(name, experiments, noun="experiment", unknown=ExperimentUnknown)
