"""The scores available for a target's replies, by `judge.criterion`."""

from collections.abc import Iterator

from agents.config import AGENTS
from config.sections import Config
from config.validation.suggestions import did_you_mean
from experiments.config import EXPERIMENTS, split_metric
from judges.config import JUDGES


def missing_score_reasons(config: Config, target: str, metric: str) -> Iterator[str]:
    """Yield why some replies of a target cannot get this score, as relative clauses."""
    judges = config.get(JUDGES)
    judge, criterion = split_metric(metric) or (metric, "")
    if judge not in judges:
        known = [f"{name}.{each}" for name in judges for each in judges[name].rubrics]
        yield (
            "which is not a judge's score; write it as judge.criterion"
            f"{did_you_mean(metric, known)}"
        )
        return
    if criterion not in judges[judge].rubrics:
        known = list(judges[judge].rubrics)
        yield (
            f"but judge '{judge}' scores only {', '.join(known)}"
            f"{did_you_mean(criterion, known)}"
        )
        return
    for name in answering_agents(config, target):
        if judge not in config.get(AGENTS)[name].judges:
            yield f"but agent '{name}' does not list '{judge}' under judges"


def answering_agents(config: Config, target: str) -> list[str]:
    """Return the existing agents that may answer for a target."""
    experiment = config.get(EXPERIMENTS).get(target)
    agents = (target,) if experiment is None else experiment.agents
    return [name for name in agents if name in config.get(AGENTS)]
