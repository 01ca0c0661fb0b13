"""What experiments, agents and judges say together, and what `manage.py check` adds.

| id | what is wrong |
|---|---|
| coulisse.E711 | an experiment has an agent's name |
| coulisse.E712 | a variant is not an agent |
| coulisse.E713 | a metric's judge or criterion does not exist |
| coulisse.E714 | a variant is not scored by the metric's judge |
| coulisse.E715 | `stop_when` does not say what to go by |
| coulisse.W716 | a bandit goes by a judge that scores nothing |
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
                f"experiment '{experiment.name}' has the name of an agent; rename one: "
                "clients ask for either by the same field",
                "coulisse.E711",
            )
        for place, name in enumerate(experiment.agents):
            if name in agents:
                continue
            told = (
                "is an experiment itself; name its agents instead"
                if name in experiments
                else f"is not under agents:{did_you_mean(name, agents)}"
            )
            yield Problem(
                ("experiments", index, "variants", place, "agent"),
                f"experiment '{experiment.name}' has the variant '{name}', which "
                f"{told}",
                "coulisse.E712",
            )


def check_metrics(config: Config) -> Iterable[Problem]:
    """Report experiments whose metric has no scores."""
    for index, experiment in enumerate(config.get(EXPERIMENTS).values()):
        at = ("experiments", index)
        for where, metric in metric_locations(experiment).items():
            yield from _check_metric((*at, *where), experiment, metric, config)
        if experiment.stop_when is None:
            continue
        if comparison_metrics.deciding_metric(config, experiment) is None:
            yield Problem(
                (*at, "stop_when"),
                f"experiment '{experiment.name}' does not say by which score a variant "
                f"wins; set stop_when.metric: {_list_names(config, experiment)}",
                "coulisse.E715",
            )


def parked_bandits(config: Config) -> Iterable[tuple[ExperimentConfig, str]]:
    """Yield bandits whose judge scores nothing, with its name."""
    judges = config.get(JUDGES)
    for experiment in config.get(EXPERIMENTS).values():
        name, _ = split_metric(experiment.metric or "") or ("", "")
        if name in judges and not judges[name].sampling_rate:
            yield experiment, name


def _list_names(config: Config, experiment: ExperimentConfig) -> str:
    found = comparison_metrics.shared_metrics(config, experiment)
    if not found:
        return "all its variants need a judge in common, under judges:, first"
    return f"there are {', '.join(found)}"


def _check_metric(
    at: Location, experiment: ExperimentConfig, metric: str, config: Config
) -> Iterable[Problem]:
    parts = split_metric(metric)
    if parts is None:
        return
    name, criterion = parts
    goes_by = f"experiment '{experiment.name}' goes by '{metric}'"
    judges, agents = config.get(JUDGES), config.get(AGENTS)
    if name not in judges:
        yield Problem(
            at,
            f"{goes_by}, and there is no judge '{name}'{did_you_mean(name, judges)}",
            "coulisse.E713",
        )
        return
    rubrics = judges[name].rubrics
    if criterion not in rubrics:
        yield Problem(
            at,
            f"{goes_by}, and judge '{name}' has no criterion '{criterion}', only "
            f"{', '.join(rubrics)}{did_you_mean(criterion, rubrics)}",
            "coulisse.E713",
        )
    for variant in dict.fromkeys(experiment.agents):
        if variant in agents and name not in agents[variant].judges:
            yield Problem(
                at,
                f"{goes_by}, and its variant '{variant}' is never scored: add "
                f"'{name}' to the agent's judges:",
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
            f"experiment '{experiment.name}' goes by '{experiment.metric}', and judge "
            f"'{judge}' scores nothing: its sampling_rate is 0, so no variant ever "
            "leads; raise it",
            id=PARKED_BANDIT,
        )
        for experiment, judge in parked_bandits(config)
    ]
