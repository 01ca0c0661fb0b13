"""Log messages of triggers."""

import logging
from collections.abc import Iterable
from datetime import datetime

from core.errors import CoulisseError
from triggers.config import CronTrigger, WebhookTrigger
from triggers.runs.trigger_runs import TriggerRun

logger = logging.getLogger(__name__)

OUTCOME_WORDS = {"started": "fired"}
"""Outcomes that the log names differently. Source: "Watching cron fire" of the
reference.
"""

_skipping_triggers: set[str] = set()
"""Triggers whose latest event was skipped because a run was active."""


def log_scheduled(trigger: CronTrigger, next_at: datetime | None) -> None:
    """Log that a cron is scheduled."""
    _log(
        "cron trigger armed",
        trigger.name,
        agent=trigger.agent,
        next=_format_time(next_at),
    )


def log_runs(runs: Iterable[TriggerRun]) -> None:
    """Log the results of events; of consecutive skips only the first."""
    for run in runs:
        trigger = run.event.trigger
        was_skipped = trigger.name in _skipping_triggers
        if run.outcome == "started":
            _skipping_triggers.discard(trigger.name)
        elif run.outcome == "skipped":
            _skipping_triggers.add(trigger.name)
            if was_skipped:
                continue
        _log(
            f"{trigger.type} trigger {OUTCOME_WORDS.get(run.outcome, run.outcome)}",
            trigger.name,
            agent=run.event.agent,
            task_id=None if run.task_id is None else str(run.task_id),
        )


def log_missed_ticks(trigger: CronTrigger, count: int, last: datetime | None) -> None:
    """Log ticks that passed while no worker ran and are not caught up."""
    _log(
        "cron trigger missed",
        trigger.name,
        level=logging.WARNING,
        ticks=count,
        last=_format_time(last),
    )


def log_refusal(trigger: WebhookTrigger, error: CoulisseError) -> None:
    """Log that a webhook refused a request."""
    _log("webhook trigger refused", trigger.name, reason=str(error))


def log_clock_set_back(trigger: CronTrigger, until: datetime) -> None:
    """Log that the machine's clock seems to have been ahead."""
    _log(
        "cron trigger rescheduled, because the clock was set back",
        trigger.name,
        level=logging.WARNING,
        was_at=_format_time(until),
    )


def _format_time(instant: datetime | None) -> str | None:
    return None if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _log(
    text: str, name: str, *, level: int = logging.INFO, **details: str | int | None
) -> None:
    fields = {"trigger": name, **details}
    fields = {key: value for key, value in fields.items() if value is not None}
    logger.log(
        level,
        "%s %s",
        text,
        " ".join(f"{key}={value}" for key, value in fields.items()),
        extra={"fields": fields},
    )
