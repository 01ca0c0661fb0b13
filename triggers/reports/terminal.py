"""Terminal and JSON output of triggers."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from triggers.config import CronTrigger, WebhookTrigger
from triggers.reports.trigger_status import TriggerStatus

STATES = ("queued", "running", "done", "errored", "cancelled")


def describe_trigger(status: TriggerStatus) -> Iterator[str]:
    """Yield the lines of a trigger: its configuration, then its results."""
    trigger = status.trigger
    off = "" if trigger.enabled else "  (off)"
    yield "  ".join(
        (
            trigger.name,
            trigger.type,
            *_describe_schedule(status),
            f"agent {trigger.agent}{off}",
        )
    )
    yield "    " + "  ".join(_describe_runs(status))


def _describe_schedule(status: TriggerStatus) -> Iterator[str]:
    trigger = status.trigger
    if isinstance(trigger, CronTrigger):
        yield str(trigger.times)
    elif isinstance(trigger, WebhookTrigger):
        yield trigger.path
        if trigger.secret is None:
            yield "no secret"


def _describe_runs(status: TriggerStatus) -> Iterator[str]:
    state = status.state
    if status.next_at is not None:
        yield f"next {_format_time(status.next_at)}"
    yield (
        "never run"
        if state.last_run_at is None
        else f"last {_format_time(state.last_run_at)}"
    )
    yield f"runs {state.run_count}"
    yield from (f"{name} {status.runs[name]}" for name in STATES if name in status.runs)
    if state.skipped:
        yield f"skipped {state.skipped}"
    if state.repeated:
        yield f"repeated {state.repeated}"
    if state.missed:
        last = (
            "" if state.missed_at is None else f", last {_format_time(state.missed_at)}"
        )
        yield f"missed {state.missed}{last}"


def as_json(status: TriggerStatus) -> dict[str, Any]:
    """Return a trigger and its results as JSON."""
    runs = {name: status.runs.get(name, 0) for name in STATES}
    return {**as_json_without_runs(status), "runs": runs}


def as_json_without_runs(status: TriggerStatus) -> dict[str, Any]:
    """Return the same for a trigger whose runs were not counted."""
    trigger, state = status.trigger, status.state
    return {
        **trigger.model_dump(mode="json", exclude={"prompt", "secret"}),
        "next_at": status.next_at,
        "last_run_at": state.last_run_at,
        "run_count": state.run_count,
        "skipped": state.skipped,
        "repeated": state.repeated,
        "missed": state.missed,
        "missed_at": state.missed_at,
    }


def _format_time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}"
