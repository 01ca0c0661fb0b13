"""Says in the log which variant of an experiment has won, once."""

import logging

from config.sections import Config
from experiments.config import EXPERIMENTS, ExperimentConfig
from turns.evaluation import comparison_report, experiment_formats

logger = logging.getLogger(__name__)

_told: dict[ExperimentConfig, str] = {}
"""Who won, as this process has said."""


def tell(config: Config) -> list[str]:
    """Log the winners nobody was told of yet; return what was said.

    An experiment that was edited is another one.
    """
    said = []
    for experiment in config.get(EXPERIMENTS).values():
        if experiment.stop_when is None:
            continue
        report = comparison_report.of(config, experiment)
        winner = report.winner
        if winner is None or _told.get(experiment) == winner.agent:
            continue
        _told[experiment] = winner.agent
        said.append(f"{experiment.name}: {experiment_formats.verdict(report)}")
        logger.info(
            "experiment '%s' has a winner by %s: %s, %s; it goes on until it is edited",
            *(experiment.name, report.deciding, winner.agent),
            f"the best with {experiment_formats.chance(winner.best or 0)}",
        )
    return said
