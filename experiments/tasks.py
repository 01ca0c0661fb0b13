"""Celery's ways in."""

import logging

from celery import shared_task

from config import live
from config.sections import Config
from experiments.comparison import comparison_formats, comparison_report
from experiments.config import EXPERIMENTS, ExperimentConfig

logger = logging.getLogger(__name__)

_logged_winners: dict[ExperimentConfig, str] = {}
"""Who won, as this process has said."""


def log_winners(config: Config) -> list[str]:
    """Log the winners nobody was told of yet; return what was said.

    An experiment that was edited is another one.
    """
    said = []
    for experiment in config.get(EXPERIMENTS).values():
        if experiment.stop_when is None:
            continue
        report = comparison_report.build_report(config, experiment)
        winner = report.winner
        if winner is None or _logged_winners.get(experiment) == winner.agent:
            continue
        _logged_winners[experiment] = winner.agent
        said.append(f"{experiment.name}: {comparison_formats.verdict_line(report)}")
        logger.info(
            "experiment '%s' has a winner by %s: %s, %s; it goes on until it is edited",
            *(experiment.name, report.deciding, winner.agent),
            f"the best with {comparison_formats.format_probability(winner.best or 0)}",
        )
    return said


@shared_task(name="experiments.tasks.verdicts", ignore_result=True)
def verdicts() -> None:
    """Say which experiments have a winner."""
    log_winners(live.current())
