"""Manual runs of triggers, even of disabled ones."""

from typing import Any

from access.audit import audit_log
from access.audit.audit_events import Actor, AuditEvent
from config.sections import Config
from config.validation.suggestions import did_you_mean
from triggers.config import TRIGGERS, AnyTrigger, WebhookTrigger
from triggers.errors import TriggerUnknown
from triggers.models import TriggerState
from triggers.runs import trigger_runs
from triggers.runs.trigger_runs import TriggerRun
from triggers.webhooks import deliveries
from triggers.webhooks.deliveries import WebhookDelivery


def find_trigger(config: Config, name: str) -> AnyTrigger:
    """Return the trigger of that name; raises `TriggerUnknown`."""
    triggers = {trigger.name: trigger for trigger in config.get(TRIGGERS)}
    if name not in triggers:
        raise TriggerUnknown(
            f"there is no trigger '{name}' under triggers:"
            f"{did_you_mean(name, triggers)}"
        )
    return triggers[name]


def run_trigger(config: Config, name: str, payload: Any, actor: Actor) -> TriggerRun:
    """Run a trigger and audit it; `payload` replaces what a webhook receives.

    Raises `TriggerUnknown`, `TriggerRunning`, and the errors of `build_event` in
    `trigger_runs` and `deliveries`.
    """
    trigger = find_trigger(config, name)
    if isinstance(trigger, WebhookTrigger):
        delivery = WebhookDelivery(payload, id=None)
        event = deliveries.build_event(config, trigger, delivery)
    else:
        event = trigger_runs.build_event(config, trigger)

    def audit_event(run: TriggerRun) -> AuditEvent:
        return AuditEvent("trigger.run", actor, name, {"task": str(run.task_id)})

    return audit_log.run_recorded(audit_event, TriggerState.objects.run_now, event)
