"""The kinds of tasks: `settings.COULISSE_TASK_KINDS` names them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from tasks.queue.claimed_task import ClaimedTask


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of a task."""

    result: str = ""
    write: Callable[[], None] | None = None
    """Writes the result in the transaction that completes the row."""
    is_closed: bool = False
    """Whether the handler has already completed the row together with its result."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of task."""

    name: str
    run: Callable[[ClaimedTask], Awaitable[TaskOutcome]]
    """The handler. It runs on the event loop and uses the database through
    `database.database_executor`. It raises its errors; `CoulisseError`s keep their
    text.
    """
    max_failures: int = 1
    """Maximum failed attempts if a row does not set it."""
    is_listed: bool = False
    """Whether users see it in their list of tasks."""
    is_turn: bool = False
    """Whether each attempt is a turn (`attempt_ids`)."""
    is_repeatable: bool = False
    """Whether a completed task may run again."""
    is_background: bool = False
    """Whether no user waits for it: such tasks leave one slot of each worker to others.
    """


@cache
def _kinds() -> dict[str, TaskKind]:
    # Imported lazily, because each handler imports all that it needs.
    kinds = [import_string(path) for path in settings.COULISSE_TASK_KINDS]
    return {kind.name: kind for kind in kinds}


def get(name: str) -> TaskKind | None:
    """Return a kind by its name, or None."""
    return _kinds().get(name)


def names() -> list[str]:
    """Return the kinds that workers of this version can run."""
    return list(_kinds())


def interactive_names() -> list[str]:
    """Return the kinds that users wait for."""
    return [kind.name for kind in _kinds().values() if not kind.is_background]


def listed_names() -> list[str]:
    """Return the kinds that users see in their list of tasks."""
    return [kind.name for kind in _kinds().values() if kind.is_listed]
