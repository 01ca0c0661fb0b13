"""Keeps the children of one server running, and ends them in the right order."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from processes.errors import StartFailed
from processes.supervision.child_process import ChildProcess
from processes.supervision.heartbeat import HeartbeatTable
from processes.supervision.signal_receiver import SignalReceiver

START_ATTEMPTS = 2
"""Deaths of a vital child before the server answered that make the start a failure."""
STOP_SECONDS = 9.2
"""From the request to stop until what is left is killed; `stop` waits ten."""
START_POLL_SECONDS = 0.1
HEARTBEAT_POLL_SECONDS = 5.0
MAX_MISSED_HEARTBEATS = 6
"""Looks in a row, half a minute, that find a child as the one before: it hangs."""

logger = logging.getLogger(__name__)


class Supervisor:
    """Starts the children, restarts them when they die, stops them."""

    def __init__(
        self,
        children: Sequence[ChildProcess],
        board: HeartbeatTable,
        *,
        changed: Callable[["Supervisor"], None],
    ) -> None:
        self.children = children
        self._board = board
        self._looked_at = 0.0
        self.is_serving = False
        self._changed = changed
        """Called whenever a child or `is_serving` changes."""

    def watch(
        self,
        inbox: SignalReceiver,
        *,
        serves: Callable[[], bool],
        limit_seconds: float | None,
    ) -> None:
        """Run the children until a stop is requested.

        `serves` says whether the server answers; it is asked until it does. Raises
        `StartFailed` when a child keeps dying before that or the limit passes first.
        """
        started_at = time.monotonic()
        while not inbox.is_stop_requested:
            self._kill_hanging(time.monotonic())
            self._restart_dead(time.monotonic())
            if not self.is_serving:
                self._check_boot(serves)
                self._check_limit(started_at, limit_seconds)
            inbox.wait(self._seconds_until_next())

    def stop(self, inbox: SignalReceiver) -> None:
        """End web, worker and beat, then what their open streams and jobs needed.

        Kills what is left after `STOP_SECONDS`, or at once when the user insists.
        """
        deadline = (inbox.stop_requested_at or time.monotonic()) + STOP_SECONDS
        first = [child for child in self.children if not child.command.outlives_web]
        others = [child for child in self.children if child.command.outlives_web]
        for stage in (first, others):
            self._end(stage, inbox, deadline)

    def _restart_dead(self, now: float) -> None:
        died = [child for child in self.children if child.reap(now)]
        due = [
            child
            for child in self._needed_children()
            if not child.is_running and child.seconds_until_due(now) <= 0
        ]
        for child in due:
            if child.command.heartbeat_slot is not None:
                self._board.reset(child.command.heartbeat_slot)
            child.start(now)
        if died or due:
            self._changed(self)

    def _needed_children(self) -> list[ChildProcess]:
        """Return the children that shall run by now."""
        return [
            child
            for child in self.children
            if (self.is_serving or not child.command.follows_web)
            and (child.has_started or child.command.is_needed())
        ]

    def _kill_hanging(self, now: float) -> None:
        """Kill hanging children; `_restart_dead` restarts them."""
        if now - self._looked_at < HEARTBEAT_POLL_SECONDS:
            return
        self._looked_at = now
        for child in self.children:
            place, name = child.command.heartbeat_slot, child.command.name
            if place is None or not child.is_running:
                continue
            misses = self._board.count_misses(place)
            logger.debug("%s has missed %d beats", name, misses)
            if misses >= MAX_MISSED_HEARTBEATS:
                logger.warning("%s hangs; killed", name)
                child.kill_for_restart()
                self._board.reset(place)

    def _check_boot(self, serves: Callable[[], bool]) -> None:
        vital = [child for child in self.children if child.command.is_vital]
        for child in vital:
            if child.restarts >= START_ATTEMPTS:
                raise StartFailed(
                    f"{child.command.name} ended {child.restarts} times before the "
                    "server answered; the lines above say why"
                )
        if all(child.is_running for child in vital) and serves():
            self.is_serving = True
            self._changed(self)

    def _check_limit(self, started_at: float, limit_seconds: float | None) -> None:
        if self.is_serving or limit_seconds is None:
            return
        if time.monotonic() - started_at > limit_seconds:
            raise StartFailed(f"the server did not answer within {limit_seconds:g} s")

    def _seconds_until_next(self) -> float:
        longest = HEARTBEAT_POLL_SECONDS if self.is_serving else START_POLL_SECONDS
        now = time.monotonic()
        pauses = (
            child.seconds_until_due(now)
            for child in self._needed_children()
            if not child.is_running
        )
        return min([longest, *pauses])

    def _end(
        self, stage: Iterable[ChildProcess], inbox: SignalReceiver, deadline: float
    ) -> None:
        stage = list(stage)
        for child in stage:
            child.terminate()
        while not all(child.is_gone() for child in stage):
            seconds = deadline - time.monotonic()
            if seconds <= 0 or inbox.is_urgent:
                break
            inbox.wait(seconds)
        for child in stage:
            if not child.is_gone():
                logger.warning("%s did not end in time; killed", child.command.name)
            child.kill()
