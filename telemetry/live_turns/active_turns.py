"""Activity of this process: the running turns, and flags for recent changes.

A turn is registered when it is ready to run and unregistered when it is stored. Its
record grows as it runs (`core.trace`); only a function that reads it is registered, and
it is called only while a viewer is connected. Without viewers nothing else happens.

For tasks and ended turns there is only a flag that something changed: viewers read
their rows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from core.ids import TurnId
from core.trace import Call
from telemetry.types import TurnHeader

MAX_LISTED = 200
"""Maximum turns that are listed, newest first; the others are only counted."""


@dataclass(frozen=True, slots=True)
class ActiveTurn(TurnHeader):
    calls: list[Call]
    """Its calls so far."""


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """Changes since the last call of `take_changes`."""

    has_ended_turns: bool
    """Whether a turn has ended, so that its record may be read."""
    has_changed_tasks: bool
    """Whether a task has changed its state."""


class ActiveTurns:
    """The running turns of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[TurnId, Callable[[], ActiveTurn]] = {}
        self._has_ended = self._has_tasks = False
        self._watched_until = -1.0

    def register(self, turn_id: TurnId, read: Callable[[], ActiveTurn]) -> None:
        """List a turn from now on; `read` is called while a viewer is connected."""
        self._running[turn_id] = read

    def unregister(self, turn_id: TurnId) -> None:
        """Remove a turn, if it was listed; viewers then read its record."""
        if self._running.pop(turn_id, None) is not None:
            self._has_ended = True

    def mark_tasks_changed(self) -> None:
        """Flag that tasks have changed their state; callable from any thread."""
        self._has_tasks = True

    def watch(self, seconds: float) -> None:
        """Note that a viewer is connected for so long."""
        self._watched_until = max(self._watched_until, self._clock() + seconds)

    def is_watched(self) -> bool:
        """Return whether a viewer is connected."""
        return self._clock() < self._watched_until

    def list_turns(self) -> list[ActiveTurn]:
        """Return at most `MAX_LISTED` running turns, newest last."""
        readers = list(self._running.values())
        return [read() for read in readers[-MAX_LISTED:]]

    def count(self) -> int:
        return len(self._running)

    def take_changes(self) -> ChangeFlags:
        """Return the changes since the last call."""
        has_ended, self._has_ended = self._has_ended, False
        has_tasks, self._has_tasks = self._has_tasks, False
        return ChangeFlags(has_ended, has_tasks)


ACTIVE_TURNS = ActiveTurns()
"""The running turns of this process."""
