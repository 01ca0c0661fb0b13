"""Terminal and JSON output of triggers."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from triggers.config import CronTrigger, WebhookTrigger
from triggers.reports.trigger_status import TriggerStatus

STATES = ("queued", "running", "done", "errored", "cancelled")


def describe_trigger(page: TriggerStatus) -> Iterator[str]:
    """Yield the lines of a trigger: its configuration, then its results."""
    trigger = page.trigger
    off = "" if trigger.enabled else "  (off)"
    yield "  ".join(
        (
            trigger.name,
            trigger.type,
            *_describe_schedule(page),
            f"agent {trigger.agent}{off}",
        )
    )
    yield "    " + "  ".join(_describe_runs(page))


def _describe_schedule(page: TriggerStatus) -> Iterator[str]:
    trigger = page.trigger
    if isinstance(trigger, CronTrigger):
        yield str(trigger.times)
    elif isinstance(trigger, WebhookTrigger):
        yield trigger.path
        if trigger.secret is None:
            yield "no secret"


def _describe_runs(page: TriggerStatus) -> Iterator[str]:
    state = page.state
    if page.next_at is not None:
        yield f"next {_format_time(page.next_at)}"
    yield (
        "never fired"
        if state.fired_at is None
        else f"last {_format_time(state.fired_at)}"
    )
    yield f"fired {state.fired}"
    yield from (f"{name} {page.runs[name]}" for name in STATES if name in page.runs)
    if state.skipped:
        yield f"skipped {state.skipped}"
    if state.repeated:
        yield f"repeated {state.repeated}"
    if state.missed:
        last = (
            "" if state.missed_at is None else f", last {_format_time(state.missed_at)}"
        )
        yield f"missed {state.missed}{last}"


def as_json(page: TriggerStatus) -> dict[str, Any]:
    """Return a trigger and its results as JSON."""
    runs = {name: page.runs.get(name, 0) for name in STATES}
    return {**as_json_without_runs(page), "runs": runs}


def as_json_without_runs(page: TriggerStatus) -> dict[str, Any]:
    """Return the same for a trigger whose runs were not counted."""
    trigger, state = page.trigger, page.state
    told = trigger.model_dump(mode="json", exclude={"prompt", "secret"})
    return {
        **told,
        "next_at": page.next_at,
        "last_at": state.fired_at,
        "fired": state.fired,
        "skipped": state.skipped,
        "repeated": state.repeated,
        "missed": state.missed,
        "missed_at": state.missed_at,
    }


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
