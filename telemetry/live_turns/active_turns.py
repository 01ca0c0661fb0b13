"""What happens now in this process: the turns that run, and what has just changed.

A turn is put up when it is ready to run and taken down when it is stored. Its record
grows as it runs (`core.trace`), so the board is only told where that is, and reads it
when somebody watches. While nobody does, that is all it costs.

Of tasks, and of turns that ended, it says only that there is news: who watches reads
their rows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from core.ids import TurnId
from core.trace import Call
from telemetry.types import TurnHeader

MAX_LISTED = 200
"""Turns that are told of at once, the newest; of the others there is a count."""


@dataclass(frozen=True, slots=True)
class ActiveTurn(TurnHeader):
    """A turn that runs."""

    calls: list[Call]
    """What it has called until now."""


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """What has changed since somebody asked last."""

    has_ended_turns: bool
    """Whether a turn has: its record may be read."""
    has_changed_tasks: bool
    """Whether a task is in another state than before."""


class ActiveTurns:
    """The board of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[TurnId, Callable[[], ActiveTurn]] = {}
        self._has_ended = self._has_tasks = False
        self._watched_until = -1.0

    def register(self, turn_id: TurnId, look: Callable[[], ActiveTurn]) -> None:
        """Show a turn from now on; `look` is called when somebody watches."""
        self._running[turn_id] = look

    def unregister(self, turn_id: TurnId) -> None:
        """Show a turn no more, if it was shown; who watches reads what became of it."""
        if self._running.pop(turn_id, None) is not None:
            self._has_ended = True

    def mark_tasks_changed(self) -> None:
        """Take down that tasks are in another state than before; from any thread."""
        self._has_tasks = True

    def watch(self, seconds: float) -> None:
        """Have somebody watch for so long."""
        self._watched_until = max(self._watched_until, self._clock() + seconds)

    def is_watched(self) -> bool:
        """Return whether anybody wants to know."""
        return self._clock() < self._watched_until

    def list_turns(self) -> list[ActiveTurn]:
        """Return the turns that run, the newest last, as many as are told of."""
        looks = list(self._running.values())
        return [look() for look in looks[-MAX_LISTED:]]

    def count(self) -> int:
        """Return how many turns run that anybody may know of."""
        return len(self._running)

    def take_changes(self) -> ChangeFlags:
        """Return what changed since this was called last."""
        has_ended, self._has_ended = self._has_ended, False
        has_tasks, self._has_tasks = self._has_tasks, False
        return ChangeFlags(has_ended, has_tasks)


ACTIVE_TURNS = ActiveTurns()
"""This process's."""
