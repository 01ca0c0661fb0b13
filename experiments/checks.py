"""Checks of experiments, agents and judges together, and the system checks.

| id | what is wrong |
|---|---|
| coulisse.E711 | an experiment has an agent's name |
| coulisse.E712 | a variant is not an agent |
| coulisse.E713 | a metric's judge or criterion does not exist |
| coulisse.E714 | a variant is not scored by the metric's judge |
| coulisse.E715 | `stop_when` has no deciding metric |
| coulisse.W716 | the judge of a bandit's metric scores nothing |
"""

from collections.abc import Iterable
from typing import Any

from django.core import checks

from agents.config import AGENTS
from config.loading import checked_file
from config.sections import Config, Location, Problem
from config.validation.suggestions import did_you_mean
from experiments.comparison import comparison_metrics
from experiments.config import (
    EXPERIMENTS,
    ExperimentConfig,
    metric_locations,
    split_metric,
)
from judges.config import JUDGES

PARKED_BANDIT = "coulisse.W716"


def check_variants(config: Config) -> Iterable[Problem]:
    """Report experiments with agents' names, and variants that are not agents."""
    agents, experiments = config.get(AGENTS), config.get(EXPERIMENTS)
    for index, experiment in enumerate(experiments.values()):
        if experiment.name in agents:
            yield Problem(
                ("experiments", index, "name"),
                f"experiment '{experiment.name}' has the same name as an agent; rename "
                "one of them",
                "coulisse.E711",
            )
        for position, name in enumerate(experiment.agents):
            if name in agents:
                continue
            reason = (
                "is an experiment itself; name its agents instead"
                if name in experiments
                else f"is not under agents:{did_you_mean(name, agents)}"
            )
            yield Problem(
                ("experiments", index, "variants", position, "agent"),
                f"experiment '{experiment.name}' has the variant '{name}', which "
                f"{reason}",
                "coulisse.E712",
            )


def check_metrics(config: Config) -> Iterable[Problem]:
    """Report experiments whose metric has no scores."""
    for index, experiment in enumerate(config.get(EXPERIMENTS).values()):
        location = ("experiments", index)
        for path, metric in metric_locations(experiment).items():
            yield from _check_metric((*location, *path), experiment, metric, config)
        if experiment.stop_when is None:
            continue
        if comparison_metrics.deciding_metric(config, experiment) is None:
            yield Problem(
                (*location, "stop_when"),
                f"experiment '{experiment.name}' has stop_when but no deciding metric; "
                f"{_metric_hint(config, experiment)}",
                "coulisse.E715",
            )


def parked_bandits(config: Config) -> Iterable[tuple[ExperimentConfig, str]]:
    """Yield bandits whose judge scores nothing, with its name."""
    judges = config.get(JUDGES)
    for experiment in config.get(EXPERIMENTS).values():
        name = experiment.judge
        if name in judges and not judges[name].sampling_rate:
            yield experiment, name


def _metric_hint(config: Config, experiment: ExperimentConfig) -> str:
    metrics = comparison_metrics.shared_metrics(config, experiment)
    if not metrics:
        return "add a judge to the judges: of all its variants"
    return f"set stop_when.metric to one of {', '.join(metrics)}"


def _check_metric(
    location: Location, experiment: ExperimentConfig, metric: str, config: Config
) -> Iterable[Problem]:
    parts = split_metric(metric)
    if parts is None:
        return
    name, criterion = parts
    user = f"experiment '{experiment.name}' uses metric '{metric}'"
    judges, agents = config.get(JUDGES), config.get(AGENTS)
    if name not in judges:
        yield Problem(
            location,
            f"{user}, but judge '{name}' is not under judges:"
            f"{did_you_mean(name, judges)}",
            "coulisse.E713",
        )
        return
    rubrics = judges[name].rubrics
    if criterion not in rubrics:
        yield Problem(
            location,
            f"{user}, but judge '{name}' has no criterion '{criterion}', only "
            f"{', '.join(rubrics)}{did_you_mean(criterion, rubrics)}",
            "coulisse.E713",
        )
    for variant in dict.fromkeys(experiment.agents):
        if variant in agents and name not in agents[variant].judges:
            yield Problem(
                location,
                f"{user}, but its variant '{variant}' is never scored; add '{name}' to "
                "the agent's judges:",
                "coulisse.E714",
            )


@checks.register
def check_bandits(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of bandits whose judge scores nothing."""
    config = None if databases else checked_file.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"experiment '{experiment.name}' uses metric '{experiment.metric}', but "
            f"judge '{judge}' scores nothing, because its sampling_rate is 0; raise it",
            id=PARKED_BANDIT,
        )
        for experiment, judge in parked_bandits(config)
    ]
