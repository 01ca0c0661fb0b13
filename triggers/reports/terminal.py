"""Triggers as the terminal and programs are shown them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from triggers.config import CronTrigger, WebhookTrigger
from triggers.reports.trigger_status import Page

STATES = ("queued", "running", "done", "errored", "cancelled")


def lines(page: Page) -> Iterator[str]:
    """Yield what is said of a trigger: what it is, and below that what came of it."""
    trigger = page.trigger
    off = "" if trigger.enabled else "  (off)"
    yield "  ".join(
        (trigger.name, trigger.type, *_when(page), f"agent {trigger.agent}{off}")
    )
    yield "    " + "  ".join(_came(page))


def _when(page: Page) -> Iterator[str]:
    trigger = page.trigger
    if isinstance(trigger, CronTrigger):
        yield str(trigger.times)
    elif isinstance(trigger, WebhookTrigger):
        yield trigger.path
        if trigger.secret is None:
            yield "no secret"


def _came(page: Page) -> Iterator[str]:
    state = page.state
    if page.next_at is not None:
        yield f"next {_moment(page.next_at)}"
    yield "never fired" if state.fired_at is None else f"last {_moment(state.fired_at)}"
    yield f"fired {state.fired}"
    yield from (f"{name} {page.runs[name]}" for name in STATES if name in page.runs)
    if state.skipped:
        yield f"skipped {state.skipped}"
    if state.repeated:
        yield f"repeated {state.repeated}"
    if state.missed:
        last = "" if state.missed_at is None else f", last {_moment(state.missed_at)}"
        yield f"missed {state.missed}{last}"


def as_json(page: Page) -> dict[str, Any]:
    """Return a trigger and what came of it, for programs."""
    runs = {name: page.runs.get(name, 0) for name in STATES}
    return {**without_runs(page), "runs": runs}


def without_runs(page: Page) -> dict[str, Any]:
    """Return the same of one whose runs were not counted."""
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


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
