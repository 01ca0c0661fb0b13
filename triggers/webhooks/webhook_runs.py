"""Runs of webhooks, for async code."""

from triggers.models import TriggerState
from triggers.runs import run_log
from triggers.runs.trigger_runs import TriggerEvent, TriggerRun


def run_webhook(event: TriggerEvent) -> TriggerRun:
    """Add the task of a delivery; the caller notifies a worker."""
    run = TriggerState.objects.run(event)
    run_log.log_runs([run])
    return run
