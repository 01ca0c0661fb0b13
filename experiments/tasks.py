"""Celery tasks of experiments."""

import logging

from celery import shared_task

from config import live
from config.sections import Config
from experiments.comparison import comparison_report
from experiments.config import EXPERIMENTS, ExperimentConfig

logger = logging.getLogger(__name__)

_logged_winners: dict[ExperimentConfig, str] = {}
"""Winners that this process has logged."""


def log_winners(config: Config) -> list[str]:
    """Log new winners, and return the messages.

    An edited experiment counts as a new one.
    """
    messages = []
    for experiment in config.get(EXPERIMENTS).values():
        if experiment.stop_when is None:
            continue
        report = comparison_report.build_report(config, experiment)
        winner = report.winner
        if winner is None or _logged_winners.get(experiment) == winner:
            continue
        _logged_winners[experiment] = winner
        messages.append(f"{experiment.name}: {report.result}")
        logger.info(
            "experiment '%s' has a winner by %s: %s; it "
            "keeps running until you edit it",
            experiment.name,
            report.deciding,
            report.result.removeprefix("Winner: "),
        )
    return messages


@shared_task(name="experiments.tasks.report_winners", ignore_result=True)
def report_winners() -> None:
    """Log the experiments that have a winner."""
    log_winners(live.current())
