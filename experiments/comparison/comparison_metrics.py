"""The metrics by which an experiment's variants are compared."""

from agents.config import AGENTS
from config.sections import Config
from experiments.config import ExperimentConfig
from judges.config import JUDGES


def shared_metrics(config: Config, experiment: ExperimentConfig) -> list[str]:
    """Return every `judge.criterion` that scores all variants."""
    agents = config.get(AGENTS)
    variants = [agents[name] for name in experiment.agents if name in agents]
    return [
        f"{judge.name}.{criterion}"
        for judge in config.get(JUDGES).values()
        if all(judge.name in variant.judges for variant in variants)
        for criterion in judge.rubrics
    ]


def deciding_metric(config: Config, experiment: ExperimentConfig) -> str | None:
    """Return the metric that decides which variant is best, or None."""
    rule = experiment.stop_when
    if rule is not None and rule.metric is not None:
        return rule.metric
    if experiment.metric is not None:
        return experiment.metric
    metrics = shared_metrics(config, experiment)
    return metrics[0] if len(metrics) == 1 else None
