"""Keeps the children of one server running, and ends them in the right order."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from processes.errors import StartFailed
from processes.supervision.child_process import ChildProcess
from processes.supervision.heartbeat import HeartbeatTable
from processes.supervision.signal_receiver import SignalReceiver

START_ATTEMPTS = 2
"""The start fails when a required child ends this often before the server answers."""
STOP_SECONDS = 9.2
"""Time from the stop request until the rest is killed; `stop` waits ten seconds."""
START_POLL_SECONDS = 0.1
HEARTBEAT_POLL_SECONDS = 5.0
MAX_MISSED_HEARTBEATS = 6
"""A child hangs after so many missed heartbeats in a row: half a minute."""

logger = logging.getLogger(__name__)


class Supervisor:
    """Starts the children, restarts those that end, and stops them."""

    def __init__(
        self,
        children: Sequence[ChildProcess],
        heartbeats: HeartbeatTable,
        *,
        changed: Callable[["Supervisor"], None],
    ) -> None:
        self.children = children
        self._heartbeats = heartbeats
        self._checked_at = 0.0
        self.is_serving = False
        self._changed = changed
        """Called whenever a child or `is_serving` changes."""

    def watch(
        self,
        signals: SignalReceiver,
        *,
        is_answering: Callable[[], bool],
        limit_seconds: float | None,
    ) -> None:
        """Run the children until a stop is requested.

        `is_answering` returns whether the server answers; it is called until it does.
        Raises `StartFailed` if a child keeps ending before that, or after the limit.
        """
        started_at = time.monotonic()
        while not signals.is_stop_requested:
            self._kill_hanging(time.monotonic())
            self._restart_ended(time.monotonic())
            if not self.is_serving:
                self._check_start(is_answering)
                self._check_limit(started_at, limit_seconds)
            signals.wait(self._seconds_until_next())

    def stop(self, signals: SignalReceiver) -> None:
        """Stop web, worker and beat, then the children that they depend on.

        Kills the rest after `STOP_SECONDS`, or at once after a second ^C.
        """
        deadline = (signals.stop_requested_at or time.monotonic()) + STOP_SECONDS
        first = [child for child in self.children if not child.command.outlives_web]
        others = [child for child in self.children if child.command.outlives_web]
        for stage in (first, others):
            self._stop_stage(stage, signals, deadline)

    def _restart_ended(self, now: float) -> None:
        ended = [child for child in self.children if child.reap(now)]
        due = [
            child
            for child in self._needed_children()
            if not child.is_running and child.seconds_until_due(now) <= 0
        ]
        for child in due:
            if child.command.heartbeat_slot is not None:
                self._heartbeats.reset(child.command.heartbeat_slot)
            child.start(now)
        if ended or due:
            self._changed(self)

    def _needed_children(self) -> list[ChildProcess]:
        """Return the children that have to run by now."""
        return [
            child
            for child in self.children
            if (self.is_serving or not child.command.follows_web)
            and (child.has_started or child.command.is_needed())
        ]

    def _kill_hanging(self, now: float) -> None:
        """Kill hanging children; `_restart_ended` restarts them."""
        if now - self._checked_at < HEARTBEAT_POLL_SECONDS:
            return
        self._checked_at = now
        for child in self.children:
            slot, name = child.command.heartbeat_slot, child.command.name
            if slot is None or not child.is_running:
                continue
            misses = self._heartbeats.count_misses(slot)
            logger.debug("%s has missed %d heartbeats", name, misses)
            if misses >= MAX_MISSED_HEARTBEATS:
                logger.warning("%s hangs; killed", name)
                child.kill_for_restart()
                self._heartbeats.reset(slot)

    def _check_start(self, is_answering: Callable[[], bool]) -> None:
        required = [child for child in self.children if child.command.is_required]
        for child in required:
            if child.restarts >= START_ATTEMPTS:
                raise StartFailed(
                    f"{child.command.name} ended {child.restarts} times before the "
                    "server answered; see the log lines above"
                )
        if all(child.is_running for child in required) and is_answering():
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

    def _stop_stage(
        self, stage: Iterable[ChildProcess], signals: SignalReceiver, deadline: float
    ) -> None:
        stage = list(stage)
        for child in stage:
            child.terminate()
        while not all(child.has_ended() for child in stage):
            seconds = deadline - time.monotonic()
            if seconds <= 0 or signals.is_urgent:
                break
            signals.wait(seconds)
        for child in stage:
            if not child.has_ended():
                logger.warning("%s did not end in time; killed", child.command.name)
            child.kill()
