"""The kinds of tasks: `settings.COULISSE_TASK_KINDS` names them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from config import live
from tasks.config import TASKS

EXTRACTION = "extraction"
"""The kind with a task for each stored turn. Lists leave it out unless it is asked for.
"""


class Queue(StrEnum):
    """The Celery queues of tasks; periodic jobs are in `maintenance`."""

    AGENTS = "agents"
    JUDGES = "judges"
    MEMORY = "memory"
    SHADOW = "shadow"


MIN_BACKOFF_SECONDS = 2.0
"""The longest pause after a first failure; later ones grow to ten minutes."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    result: str = ""
    write: Callable[[], None] | None = None
    """Writes the result in the transaction that completes the row."""
    is_closed: bool = False
    """Whether the handler has already completed the row together with its result."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    name: str
    queue: Queue
    """The Celery queue of its permits."""
    handler: str
    """The dotted name of its handler, an async function of a `ClaimedTask`. It runs on
    the event loop and uses the database through `database.database_executor`. It raises
    its errors; `CoulisseError`s keep their text.
    """
    is_listed: bool = False
    """Whether users see it in their list of tasks and may run it again. Each of its
    attempts is a turn (`Task.turn_ids`).
    """
    is_background: bool = False
    """Whether no user waits for it: such tasks leave one slot of each worker to others.
    """

    is_ordered: bool = False
    """Whether a user's tasks run one after the other, the oldest first."""
    min_backoff_seconds: float | None = None
    """The longest pause after a first failure; None is `MIN_BACKOFF_SECONDS`."""

    def load_handler(self) -> Callable[[Any], Awaitable[TaskOutcome]]:
        """Return the handler, imported at the first call."""
        handler: Callable[[Any], Awaitable[TaskOutcome]] = import_string(self.handler)
        return handler

    @property
    def celery_name(self) -> str:
        """The name of its Celery task, which runs one row per execution."""
        return f"tasks.run_{self.name}"

    @property
    def group(self) -> str:
        """The kinds with which it shares the slots of a worker."""
        return "memory" if self.queue == Queue.MEMORY else "tasks"


@cache
def _kinds() -> dict[str, TaskKind]:
    kinds: Sequence[TaskKind] = import_string(settings.COULISSE_TASK_KINDS)
    return {kind.name: kind for kind in kinds}


def get(name: str) -> TaskKind | None:
    return _kinds().get(name)


def names() -> list[str]:
    """Return the kinds that workers of this version can run."""
    return list(_kinds())


def min_backoff(name: str) -> float:
    """Return the longest pause after a first failure of a kind, in seconds."""
    kind = get(name)
    return (kind and kind.min_backoff_seconds) or MIN_BACKOFF_SECONDS


def is_ordered(name: str) -> bool:
    """Return whether a user's tasks of a kind run one after the other."""
    kind = get(name)
    return kind is not None and kind.is_ordered


def listed_names() -> list[str]:
    """Return the kinds that users see in their list of tasks."""
    return [kind.name for kind in _kinds().values() if kind.is_listed]


def non_repeatable_names() -> list[str]:
    """Return the kinds that do not run again after their worker died.

    These are users' tasks if `rerun_interrupted` is false; auxiliary tasks such as
    scoring always run again.
    """
    return [] if live.current().get(TASKS).rerun_interrupted else listed_names()
