"""Fires a trigger because somebody says so, also where it is switched off."""

from typing import Any

from config.sections import Config
from config.validation.suggestions import did_you_mean
from core.errors import Conflict, NotFound
from triggers.config import TRIGGERS, AnyTrigger, WebhookTrigger
from triggers.runs import trigger_runs
from triggers.runs.trigger_runs import Firing, Occasion
from triggers.webhooks import deliveries
from triggers.webhooks.deliveries import Delivery


class TriggerUnknown(NotFound):
    """There is no such trigger under triggers:."""

    code = "trigger_not_found"


class StillRunning(Conflict):
    """This trigger has a run that is not over, and skips others meanwhile."""

    code = "trigger_running"


def named(config: Config, name: str) -> AnyTrigger:
    """Return the trigger of that name; raises `TriggerUnknown`."""
    known = {trigger.name: trigger for trigger in config.get(TRIGGERS)}
    if name not in known:
        raise TriggerUnknown(
            f"no trigger is called '{name}'{did_you_mean(name, known)}"
        )
    return known[name]


def occasion(config: Config, name: str, payload: Any) -> Occasion:
    """Return what a trigger is to do now; `payload` is what a webhook has been sent.

    Raises `TriggerUnknown`, and what `triggers.occasion` and `deliveries.occasion` do.
    """
    trigger = named(config, name)
    if isinstance(trigger, WebhookTrigger):
        return deliveries.occasion(config, trigger, Delivery(payload, id=None))
    return trigger_runs.occasion(config, trigger)


def fire(occasion: Occasion) -> Firing:
    """Add its task, in the caller's transaction if there is one.

    Whoever calls wakes a worker after the commit. Raises `StillRunning`.
    """
    firing = trigger_runs.fire(occasion)
    if firing.task_id is None:
        name = occasion.trigger.name
        raise StillRunning(f"trigger '{name}' has a run that is not over")
    return firing
