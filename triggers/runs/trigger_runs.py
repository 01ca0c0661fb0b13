"""Fires triggers: each firing is a task of its agent, and all occasions are counted."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from django.db import transaction

from access.errors import UserRequired
from access.users import identity
from access.users.caller import OPEN
from config.sections import Config
from core.ids import UserId
from tasks.config import TASKS
from tasks.errors import TasksDisabled
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import Draft
from telemetry.storage.stored_text import storable
from triggers.config import AnyTrigger
from triggers.models import TriggerState
from turns.agent_tasks import task_requests

LOOKED_AT = 50
"""Newest runs of a trigger that are looked at for one that is not over."""


@dataclass(frozen=True, slots=True)
class Occasion:
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
class Firing:
    """What came of an occasion."""

    event: Occasion
    outcome: Literal["fired", "repeated", "skipped"]
    task_id: uuid.UUID | None
    """The task that was added, or that it repeats; None where it was skipped."""


def origin_of(name: str) -> str:
    """Return how a trigger's tasks are told from others."""
    return f"trigger:{name}"


def occasion(
    config: Config, trigger: AnyTrigger, *, key: str | None = None, tick: str = ""
) -> Occasion:
    """Return what a trigger does that goes by nothing but the YAML."""
    return Occasion(
        trigger,
        user_of(config, trigger, trigger.user),
        trigger.agent,
        trigger.prompt,
        trigger.thread,
        key,
        tick,
        max_failures=attempts(config),
    )


def attempts(config: Config) -> int:
    """Return how often a run is tried that fails.

    Raises `TasksDisabled` where nothing is taken on.
    """
    settings = config.get(TASKS)
    if not settings.enabled:
        raise TasksDisabled
    return settings.retries + 1


def user_of(config: Config, trigger: AnyTrigger, named: str | None) -> UserId:
    """Return whom a trigger works for: who is named, the default, or one of its type.

    Raises `UserInvalid` for a name that is none.
    """
    try:
        return identity.resolve(config, OPEN, named)
    except UserRequired:
        return identity.derive(trigger.type)


def fire(occasion: Occasion, *, now: datetime | None = None) -> Firing:
    """Add the task of an occasion, unless it was added before or is to be left out.

    In the caller's transaction if there is one. Whoever fires calls `wake.soon()` once
    that is committed.
    """
    now = now or datetime.now(UTC)
    trigger = occasion.trigger
    with transaction.atomic():
        # One at a time of a trigger, so that none overlooks another's run.
        state = locked(trigger.name)
        if earlier := _earlier(occasion):
            state.repeated += 1
            firing = Firing(occasion, "repeated", earlier)
        elif trigger.skip_if_running and is_running(trigger.name):
            state.skipped += 1
            firing = Firing(occasion, "skipped", None)
        else:
            (task,) = lifecycle.add([_draft(occasion)], now=now)
            state.fired += 1
            state.fired_at = now
            firing = Firing(occasion, "fired", task.id)
        state.save(update_fields=["fired", "fired_at", "repeated", "skipped"])
    return firing


def locked(name: str) -> TriggerState:
    """Return a trigger's row, which is this transaction's until it ends."""
    TriggerState.objects.get_or_create(name=name)
    return TriggerState.objects.select_for_update().get(name=name)


def _earlier(occasion: Occasion) -> uuid.UUID | None:
    if occasion.key is None:
        return None
    found = Task.objects.filter(key=occasion.key).values_list("pk", flat=True)
    return found.first()


def is_running(name: str) -> bool:
    """Return whether a run of a trigger is queued or running."""
    runs = Task.objects.filter(kind=task_requests.KIND, origin=origin_of(name))
    newest = runs.order_by("-created_at").values_list("state", flat=True)
    return any(state in lifecycle.OPEN for state in newest[:LOOKED_AT])


def _draft(occasion: Occasion) -> Draft:
    trigger, thread = occasion.trigger, occasion.thread
    return Draft(
        task_requests.KIND,
        occasion.user_id,
        occasion.agent,
        storable(occasion.prompt),
        payload={
            "metadata": {} if thread is None else {"thread_id": thread},
            "generation": 1,
            "learns": trigger.learns,
            "trigger": trigger.name,
            "tick": occasion.tick,
        },
        origin=origin_of(trigger.name),
        key=occasion.key,
        max_failures=occasion.max_failures,
    )
