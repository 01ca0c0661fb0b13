"""Manual runs of a trigger, also of a disabled one."""

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
    """This trigger has a run that is not over, and skips others meanwhile."""

    code = "trigger_running"


def find_trigger(config: Config, name: str) -> AnyTrigger:
    """Return the trigger of that name; raises `TriggerUnknown`."""
    known = {trigger.name: trigger for trigger in config.get(TRIGGERS)}
    if name not in known:
        raise TriggerUnknown(
            f"no trigger is called '{name}'{did_you_mean(name, known)}"
        )
    return known[name]


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


def run_trigger(occasion: TriggerEvent) -> TriggerRun:
    """Add the task, in the caller's transaction if there is one.

    The caller notifies a worker after the commit. Raises `TriggerRunning`.
    """
    firing = trigger_runs.run_trigger(occasion)
    if firing.task_id is None:
        name = occasion.trigger.name
        raise TriggerRunning(f"trigger '{name}' has a run that is not over")
    return firing
