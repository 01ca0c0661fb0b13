"""Triggers for the tests: a YAML with some, and what is stored of them."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from tasks.models import Task
from tests.conftest import CONFIG
from triggers.models import TriggerState

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday."""


def unique(name: str) -> str:
    """Return a name no other test has: rows stay from test to test."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def yaml(*triggers: str, more: str = "") -> str:
    """Return the standard YAML with these triggers, each written as a flow map."""
    entries = "".join(f"  - {{{trigger}}}\n" for trigger in triggers)
    return f"{CONFIG}{more}\ntriggers:\n{entries}"


def cron(name: str, schedule: str, more: str = "") -> str:
    """Return a cron of the agent `assistant`."""
    return (
        f"name: {name}, type: cron, schedule: '{schedule}', agent: assistant, "
        f"prompt: It is time.{', ' if more else ''}{more}"
    )


def hook(name: str, path: str, more: str = "") -> str:
    """Return a webhook of the agent `assistant` that tells it the body's `say`."""
    told = "" if "prompt:" in more else "prompt: 'They say {{say}}.', "
    agent = "" if "agent:" in more else "agent: assistant, "
    return f"{told}{agent}name: {name}, type: webhook, path: {path}, {more}"


def boot(name: str) -> str:
    """Return a trigger that fires at the start."""
    return f"name: {name}, type: boot, agent: assistant, prompt: Good morning."


def runs(name: str) -> list[Task]:
    """Return a trigger's runs, the oldest first."""
    return list(Task.objects.filter(origin=f"trigger:{name}").order_by("created_at"))


def ticks(name: str) -> list[str]:
    """Return the times a cron fired for."""
    return sorted(task.payload["tick"] for task in runs(name))


def state(name: str) -> TriggerState:
    """Return what is known of a trigger."""
    return TriggerState.objects.get(name=name)


Configure = Callable[[str], None]
