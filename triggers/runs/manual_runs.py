"""Manual runs of triggers, even of disabled ones."""

from typing import Any

from config.sections import Config
from config.validation.suggestions import did_you_mean
from core.errors import Conflict, NotFound
from triggers.config import TRIGGERS, AnyTrigger, WebhookTrigger
from triggers.runs import trigger_runs
from triggers.runs.trigger_runs import TriggerEvent, TriggerRun
from triggers.webhooks import deliveries
from triggers.webhooks.deliveries import WebhookDelivery


class TriggerUnknown(NotFound):
    """There is no such trigger under triggers:."""

    code = "trigger_not_found"


class TriggerRunning(Conflict):
    """A run of this trigger is active, and skip_if_running is set."""

    code = "trigger_running"


def find_trigger(config: Config, name: str) -> AnyTrigger:
    """Return the trigger of that name; raises `TriggerUnknown`."""
    triggers = {trigger.name: trigger for trigger in config.get(TRIGGERS)}
    if name not in triggers:
        raise TriggerUnknown(
            f"there is no trigger '{name}' under triggers:"
            f"{did_you_mean(name, triggers)}"
        )
    return triggers[name]


def build_event(config: Config, name: str, payload: Any) -> TriggerEvent:
    """Return the event of a manual run; `payload` replaces what a webhook receives.

    Raises `TriggerUnknown`, and the errors of `build_event` in `trigger_runs` and
    `deliveries`.
    """
    trigger = find_trigger(config, name)
    if isinstance(trigger, WebhookTrigger):
        return deliveries.build_event(
            config, trigger, WebhookDelivery(payload, id=None)
        )
    return trigger_runs.build_event(config, trigger)


def run_trigger(event: TriggerEvent) -> TriggerRun:
    """Add the task, in the caller's transaction if there is one.

    The caller notifies a worker after the commit. Raises `TriggerRunning`.
    """
    run = trigger_runs.run_trigger(event)
    if run.task_id is None:
        raise TriggerRunning(
            f"a run of trigger '{event.trigger.name}' is active, and skip_if_running "
            "is set"
        )
    return run
