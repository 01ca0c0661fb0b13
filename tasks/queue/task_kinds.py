"""The sorts of work there are: `settings.COULISSE_TASK_KINDS` names them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from tasks.queue.claimed_task import ClaimedTask


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a piece of work ended."""

    result: str = ""
    write: Callable[[], None] | None = None
    """What it came to, written in the transaction that closes its row."""
    is_closed: bool = False
    """Whether it has closed its row itself (`queue.done`), with what it came to."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A sort of work."""

    name: str
    run: Callable[[ClaimedTask], Awaitable[TaskOutcome]]
    """Does it, on the event loop; tables are reached by `database.database_executor`.
    Raises what went wrong: `CoulisseError`s are told as they are."""
    max_failures: int = 1
    """Attempts, where a row does not say."""
    is_listed: bool = False
    """Whether users see it among their tasks."""
    is_turn: bool = False
    """Whether each of its attempts is a turn (`attempt_ids`)."""
    is_repeatable: bool = False
    """Whether one that is done may be done anew."""
    is_background: bool = False
    """Whether nobody waits for it: it leaves one place of each worker to the rest."""


@cache
def _kinds() -> dict[str, TaskKind]:
    # Only when they are asked for: each leads to all that does the work.
    kinds = [import_string(path) for path in settings.COULISSE_TASK_KINDS]
    return {kind.name: kind for kind in kinds}


def get(name: str) -> TaskKind | None:
    """Return a sort of work by its name."""
    return _kinds().get(name)


def names() -> list[str]:
    """Return what workers of this version can do."""
    return list(_kinds())


def interactive_names() -> list[str]:
    """Return what gives no way to anything."""
    return [kind.name for kind in _kinds().values() if not kind.is_background]


def listed_names() -> list[str]:
    """Return what users see among their tasks."""
    return [kind.name for kind in _kinds().values() if kind.is_listed]
