"""Results of experiments: traffic, scores, and the current bandit choice."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config import live
from config.validation.named_lists import get_by_name
from core.errors import NotFound
from core.text import time_parsing
from experiments.comparison import comparison_report
from experiments.config import EXPERIMENTS, ExperimentConfig
from experiments.schemas import ExperimentResults
from studio.base.views import StudioView
from telemetry.models import Turn, VariantCounts

EXPERIMENTS_URL = "/admin/experiments"
WEEK = timedelta(days=7)


class ExperimentUnknown(NotFound):
    """There is no such experiment."""

    code = "experiment_not_found"


def load_overview() -> Mapping[str, Any]:
    """Return the last week's traffic by variant, and the winner; in two queries."""
    config, since = live.current(), datetime.now(UTC) - WEEK
    experiments = config.get(EXPERIMENTS)
    turns = Turn.objects.filter(experiment__in=experiments, started_at__gte=since)
    counts = turns.count_variants()
    winners = comparison_report.find_winners(config, experiments.values())
    return {
        name: {
            **_week_summary(experiment, counts.get(name, {})),
            "winner": winners.get(name),
        }
        for name, experiment in experiments.items()
    }


def _week_summary(
    experiment: ExperimentConfig, counts: Mapping[str, VariantCounts]
) -> dict[str, Any]:
    none = VariantCounts()
    turns = {agent: counts.get(agent, none).served for agent in experiment.agents}
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
    return report.model_dump()


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
