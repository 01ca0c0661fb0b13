"""YAML of triggers for the tests, and their stored runs."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from tasks.models import Task
from tests.conftest import CONFIG
from triggers.models import TriggerState

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday."""


def unique(name: str) -> str:
    """Return a unique name, because rows stay between tests."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def yaml(*triggers: str, more: str = "") -> str:
    """Return the standard YAML with these triggers, each as a flow mapping."""
    entries = "".join(f"  - {{{trigger}}}\n" for trigger in triggers)
    return f"{CONFIG}{more}\ntriggers:\n{entries}"


def cron(name: str, schedule: str, more: str = "") -> str:
    """Return a cron of the agent `assistant`."""
    return (
        f"name: {name}, type: cron, schedule: '{schedule}', agent: assistant, "
        f"prompt: It is time.{', ' if more else ''}{more}"
    )


def hook(name: str, path: str, more: str = "") -> str:
    """Return a webhook of the agent `assistant` whose prompt has the body's `say`."""
    prompt = "" if "prompt:" in more else "prompt: 'They say {{say}}.', "
    agent = "" if "agent:" in more else "agent: assistant, "
    return f"{prompt}{agent}name: {name}, type: webhook, path: {path}, {more}"


def boot(name: str) -> str:
    """Return a boot trigger."""
    return f"name: {name}, type: boot, agent: assistant, prompt: Good morning."


def runs(name: str) -> list[Task]:
    """Return a trigger's runs, oldest first."""
    return list(Task.objects.filter(origin=f"trigger:{name}").order_by("created_at"))


def ticks(name: str) -> list[str]:
    """Return the ticks for which a cron has run."""
    return sorted(task.payload["tick"] for task in runs(name))


def state(name: str) -> TriggerState:
    """Return the stored state of a trigger."""
    return TriggerState.objects.get(name=name)


Configure = Callable[[str], None]
