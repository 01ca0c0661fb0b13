"""What happens now in this process: the turns that run, and what has just changed.

A turn is put up when it is ready to run and taken down when it is stored. Its record
grows as it runs (`core.trace`), so the board is only told where that is, and reads it
when somebody watches. While nobody does, that is all it costs.

Tasks and turns that ended are named by their ids: who watches reads their rows.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from core.ids import TurnId, UserId
from core.trace import Call
from telemetry.known import Origin

T = TypeVar("T")

MAX_TOLD = 200
"""Turns that are told of at once, the newest; of the others there is a count."""
MAX_CHANGED = 500
"""Tasks, and ends of turns, that are kept until somebody is told."""


@dataclass(frozen=True, slots=True)
class Running:
    """A turn that runs."""

    turn_id: TurnId
    user_id: UserId
    thread: str
    """The user's thread; "" is their default one."""
    agent: str
    experiment: str
    """The experiment that chose the agent; "" is none."""
    origin: Origin
    user_message: str
    """What the user said last."""
    is_streamed: bool
    started_at: datetime
    calls: list[Call]
    """What it has called until now."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What has changed since somebody asked last."""

    ended: list[TurnId]
    tasks: list[uuid.UUID]


class Board:
    """The board of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[TurnId, Callable[[], Running]] = {}
        # Of very much only the newest; other threads add to it.
        self._ended: deque[TurnId] = deque(maxlen=MAX_CHANGED)
        self._tasks: deque[uuid.UUID] = deque(maxlen=MAX_CHANGED)
        self._watched_until = -1.0

    def put_up(self, turn_id: TurnId, look: Callable[[], Running]) -> None:
        """Show a turn from now on; `look` is called when somebody watches."""
        self._running[turn_id] = look

    def take_down(self, turn_id: TurnId) -> None:
        """Show a turn no more, if it was shown; who watches reads what became of it."""
        if self._running.pop(turn_id, None) is not None and self.is_watched():
            self._ended.append(turn_id)

    def note_tasks(self, ids: Iterable[uuid.UUID]) -> None:
        """Take down which tasks are in another state than before."""
        if self.is_watched():
            self._tasks.extend(ids)

    def watch(self, seconds: float) -> None:
        """Keep what changes for so long."""
        self._watched_until = max(self._watched_until, self._clock() + seconds)

    def is_watched(self) -> bool:
        """Return whether anybody wants to know."""
        return self._clock() < self._watched_until

    def running(self) -> list[Running]:
        """Return the turns that run, the newest last, as many as are told of."""
        looks = list(self._running.values())
        return [look() for look in looks[-MAX_TOLD:]]

    def count(self) -> int:
        """Return how many turns run that anybody may know of."""
        return len(self._running)

    def changed(self) -> Changed:
        """Return what changed since this was called last."""
        return Changed(_taken(self._ended), _taken(self._tasks))


def _taken(noted: deque[T]) -> list[T]:
    """Return what was noted, each once, and note it no more."""
    return list(dict.fromkeys(noted.popleft() for _ in range(len(noted))))


BOARD = Board()
"""This process's."""
