"""Events of triggers and their runs: each run is a task of its agent."""

import uuid
from dataclasses import dataclass
from typing import Literal

from access.errors import UserRequired
from access.users import identity
from access.users.caller import ANONYMOUS
from config.sections import Config
from core.ids import UserId
from tasks.config import TASKS
from tasks.errors import TasksDisabled
from tasks.models import OPEN, Task
from tasks.queue.task_spec import TaskSpec
from telemetry.storage.stored_text import make_storable
from triggers.config import AnyTrigger
from turns.agent_tasks import task_requests

MAX_CHECKED_RUNS = 50
"""Newest runs of a trigger that are checked for an active one."""


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    trigger: AnyTrigger
    user_id: UserId
    agent: str
    prompt: str
    thread: str | None = None
    key: str | None = None
    """Unique among the trigger's events; null is always new."""
    tick: str = ""
    """The due time of a cron."""
    max_failures: int = 1


@dataclass(frozen=True, slots=True)
class TriggerRun:
    """The result of an event."""

    event: TriggerEvent
    outcome: Literal["started", "repeated", "skipped"]
    task_id: uuid.UUID | None
    """The added task, or the existing one of a repeated event; None if skipped."""


def task_origin(name: str) -> str:
    return f"trigger:{name}"


def build_event(
    config: Config, trigger: AnyTrigger, *, key: str | None = None, tick: str = ""
) -> TriggerEvent:
    """Return the event of a trigger without a payload."""
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
    """Return how often a failing run is attempted.

    Raises `TasksDisabled` if tasks are off.
    """
    settings = config.get(TASKS)
    if not settings.enabled:
        raise TasksDisabled
    return settings.retries + 1


def resolve_user(config: Config, trigger: AnyTrigger, name: str | None) -> UserId:
    """Return the user of a run: the named one, the default, or one named after the
    trigger's type.

    Raises `UserInvalid` for an invalid name.
    """
    try:
        return identity.resolve_user(config, ANONYMOUS, name)
    except UserRequired:
        return identity.derive_user_id(trigger.type)


def is_running(name: str) -> bool:
    """Return whether a run of a trigger is queued or running."""
    runs = Task.objects.of_origin(task_origin(name)).filter(kind=task_requests.KIND)
    states = runs.order_by("-created_at").values_list("state", flat=True)
    return any(state in OPEN for state in states[:MAX_CHECKED_RUNS])


def build_task(event: TriggerEvent) -> TaskSpec:
    trigger, thread = event.trigger, event.thread
    return TaskSpec(
        task_requests.KIND,
        event.user_id,
        event.agent,
        make_storable(event.prompt),
        payload={
            "metadata": {} if thread is None else {"thread_id": thread},
            "generation": 1,
            "learns": trigger.learns,
            "trigger": trigger.name,
            "tick": event.tick,
        },
        origin=task_origin(trigger.name),
        key=event.key,
        max_failures=event.max_failures,
    )
