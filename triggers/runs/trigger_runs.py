"""Fires triggers: each firing is a task of its agent, and all occasions are counted."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from django.db import transaction

from access.errors import UserRequired
from access.users import identity
from access.users.caller import ANONYMOUS
from config.sections import Config
from core.ids import UserId
from tasks.config import TASKS
from tasks.errors import TasksDisabled
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import TaskSpec
from telemetry.storage.stored_text import make_storable
from triggers.config import AnyTrigger
from triggers.models import TriggerState
from turns.agent_tasks import task_requests

MAX_CHECKED_RUNS = 50
"""Newest runs of a trigger that are looked at for one that is not over."""


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    """What a trigger is to do, once."""

    trigger: AnyTrigger
    user_id: UserId
    agent: str
    prompt: str
    thread: str | None = None
    key: str | None = None
    """Tells it from the trigger's other occasions; null is like none before."""
    tick: str = ""
    """When a cron was due."""
    max_failures: int = 1


@dataclass(frozen=True, slots=True)
class TriggerRun:
    """What came of an occasion."""

    event: TriggerEvent
    outcome: Literal["fired", "repeated", "skipped"]
    task_id: uuid.UUID | None
    """The task that was added, or that it repeats; None where it was skipped."""


def task_origin(name: str) -> str:
    """Return how a trigger's tasks are told from others."""
    return f"trigger:{name}"


def build_event(
    config: Config, trigger: AnyTrigger, *, key: str | None = None, tick: str = ""
) -> TriggerEvent:
    """Return what a trigger does that goes by nothing but the YAML."""
    return TriggerEvent(
        trigger,
        resolve_user(config, trigger, trigger.user),
        trigger.agent,
        trigger.prompt,
        trigger.thread,
        key,
        tick,
        max_failures=max_attempts(config),
    )


def max_attempts(config: Config) -> int:
    """Return how often a run is tried that fails.

    Raises `TasksDisabled` where nothing is taken on.
    """
    settings = config.get(TASKS)
    if not settings.enabled:
        raise TasksDisabled
    return settings.retries + 1


def resolve_user(config: Config, trigger: AnyTrigger, named: str | None) -> UserId:
    """Return whom a trigger works for: who is named, the default, or one of its type.

    Raises `UserInvalid` for a name that is none.
    """
    try:
        return identity.resolve_user(config, ANONYMOUS, named)
    except UserRequired:
        return identity.derive_user_id(trigger.type)


def run_trigger(occasion: TriggerEvent, *, now: datetime | None = None) -> TriggerRun:
    """Add the task of an occasion, unless it was added before or is to be left out.

    In the caller's transaction if there is one. Whoever fires calls `wake.soon()` once
    that is committed.
    """
    now = now or datetime.now(UTC)
    trigger = occasion.trigger
    with transaction.atomic():
        # One at a time of a trigger, so that none overlooks another's run.
        state = lock_state(trigger.name)
        if earlier := _find_earlier_task(occasion):
            state.repeated += 1
            firing = TriggerRun(occasion, "repeated", earlier)
        elif trigger.skip_if_running and is_running(trigger.name):
            state.skipped += 1
            firing = TriggerRun(occasion, "skipped", None)
        else:
            (task,) = lifecycle.enqueue([_build_task(occasion)], now=now)
            state.fired += 1
            state.fired_at = now
            firing = TriggerRun(occasion, "fired", task.id)
        state.save(update_fields=["fired", "fired_at", "repeated", "skipped"])
    return firing


def lock_state(name: str) -> TriggerState:
    """Return a trigger's row, which is this transaction's until it ends."""
    TriggerState.objects.get_or_create(name=name)
    return TriggerState.objects.select_for_update().get(name=name)


def _find_earlier_task(occasion: TriggerEvent) -> uuid.UUID | None:
    if occasion.key is None:
        return None
    found = Task.objects.filter(key=occasion.key).values_list("pk", flat=True)
    return found.first()


def is_running(name: str) -> bool:
    """Return whether a run of a trigger is queued or running."""
    runs = Task.objects.filter(kind=task_requests.KIND, origin=task_origin(name))
    newest = runs.order_by("-created_at").values_list("state", flat=True)
    return any(state in lifecycle.OPEN for state in newest[:MAX_CHECKED_RUNS])


def _build_task(occasion: TriggerEvent) -> TaskSpec:
    trigger, thread = occasion.trigger, occasion.thread
    return TaskSpec(
        task_requests.KIND,
        occasion.user_id,
        occasion.agent,
        make_storable(occasion.prompt),
        payload={
            "metadata": {} if thread is None else {"thread_id": thread},
            "generation": 1,
            "learns": trigger.learns,
            "trigger": trigger.name,
            "tick": occasion.tick,
        },
        origin=task_origin(trigger.name),
        key=occasion.key,
        max_failures=occasion.max_failures,
    )
