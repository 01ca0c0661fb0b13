"""Log messages of triggers."""

import logging
from collections.abc import Iterable
from datetime import datetime

from triggers.runs.trigger_runs import TriggerRun

logger = logging.getLogger(__name__)

OUTCOME_WORDS = {"started": "fired"}
"""Outcomes that the log names differently. Source: "Watching cron fire" of the
reference.
"""

_skipping_triggers: set[str] = set()
"""Triggers whose latest event was skipped because a run was active."""


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
        log_event(
            f"{trigger.type} trigger {OUTCOME_WORDS.get(run.outcome, run.outcome)}",
            trigger.name,
            agent=run.event.agent,
            task_id=None if run.task_id is None else str(run.task_id),
        )


def log_event(
    text: str,
    name: str,
    *,
    level: int = logging.INFO,
    **details: str | int | datetime | None,
) -> None:
    """Log an event of a trigger, with the details that have a value."""
    fields = {"trigger": name} | {
        key: f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value
        for key, value in details.items()
        if value is not None
    }
    logger.log(
        level,
        "%s %s",
        text,
        " ".join(f"{key}={value}" for key, value in fields.items()),
        extra={"fields": fields},
    )
