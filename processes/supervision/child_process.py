"""One child process: started, watched, and restarted with backoff."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from processes.supervision import orphan_cleanup
from processes.supervision.run_state import ChildRecord, WaitingRecord
from telemetry.log_output import formatters

MIN_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
STABLE_SECONDS = 60.0
"""A child that ran this long is stable: its backoff starts over."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """The command of a child, and its role."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]
    """The file descriptors it inherits."""
    is_required: bool = True
    """Whether the server cannot answer without it."""
    follows_web: bool = False
    """Whether it starts only after the server answers, to leave the cores to it."""
    outlives_web: bool = False
    """Whether others need it until their last stream or job has finished."""
    heartbeat_slot: int | None = None
    """Its position in the heartbeat table, if it sends heartbeats."""
    is_needed: Callable[[], bool] = lambda: True
    """Returns whether to start it; called until it has started."""


@dataclass(slots=True)
class ChildProcess:
    """A command and the process that runs it now, if any."""

    command: ChildCommand
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    _created_at: float = 0.0
    _started_at: float = 0.0
    _pause_seconds: float = MIN_BACKOFF_SECONDS
    _due_at: float = field(default=0.0)
    _reason: str = ""

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def has_started(self) -> bool:
        """Whether a start was attempted."""
        return self._started_at > 0

    def seconds_until_due(self, now: float) -> float:
        """Return the rest of an ended child's backoff."""
        return self._due_at - now

    def start(self, now: float) -> None:
        """Run the command in a process group of its own."""
        self._started_at = now
        try:
            self.process = subprocess.Popen(
                self.command.argv,
                env=self.command.environment,
                pass_fds=self.command.descriptors,
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        except OSError as exc:
            self._schedule_restart(now, f"cannot start: {exc}")
            return
        self._created_at = orphan_cleanup.created_at(self.process.pid)

    def reap(self, now: float) -> bool:
        """Detect the child's end; then kill its group and schedule the restart.

        Return whether the child has ended since the last call.
        """
        if self.process is None or self.process.poll() is None:
            return False
        orphan_cleanup.kill_group(self.process.pid)
        reason = f"ended with {describe_exit(self.process.returncode)}"
        self.process = None
        self._schedule_restart(now, reason)
        return True

    def terminate(self) -> None:
        """Send SIGTERM, so that the process finishes its work and ends."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)

    def has_ended(self) -> bool:
        """Return whether no process runs, for a child that will not restart."""
        return self.process is None or self.process.poll() is not None

    def kill_for_restart(self) -> None:
        """Kill the process with everything it started; `reap` detects it later."""
        if self.process is not None:
            orphan_cleanup.kill_group(self.process.pid)

    def kill(self) -> None:
        """Kill the process with everything it started."""
        self.kill_for_restart()
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=1)
            self.process = None

    def record(self) -> ChildRecord | None:
        """Return the record for other commands, or None while it is not running."""
        if self.process is None:
            return None
        return ChildRecord(
            name=self.command.name,
            pid=self.process.pid,
            created_at=self._created_at,
            restarts=self.restarts,
        )

    def waiting_record(self, now: float) -> WaitingRecord | None:
        """Return the record of a pending restart, or None."""
        if self.process is not None or not self.has_started:
            return None
        return WaitingRecord(
            name=self.command.name,
            due_at=time.time() + self.seconds_until_due(now),
            restarts=self.restarts,
            reason=self._reason,
        )

    def _schedule_restart(self, now: float, reason: str) -> None:
        self._reason = reason
        if now - self._started_at >= STABLE_SECONDS:
            self._pause_seconds = MIN_BACKOFF_SECONDS
        self._due_at = now + self._pause_seconds
        logger.warning(
            "%s %s; restarting in %.1f s",
            self.command.name,
            reason,
            self._pause_seconds,
        )
        self._pause_seconds = min(self._pause_seconds * 2, MAX_BACKOFF_SECONDS)
        self.restarts += 1


def describe_exit(returncode: int) -> str:
    """Return `exit code 3` or `signal SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


def base_environment(project: str, config: str) -> dict[str, str]:
    """Return the environment of all children: ours, with the paths of code and YAML."""
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "COULISSE_CONFIG": config,
        "PYTHONPATH": f"{project}{os.pathsep}{path}" if path else project,
    }


def outer_environment(project: str) -> dict[str, str]:
    """Return the environment without our own variables, for other programs."""
    own = {formatters.PROCESS_VARIABLE, "DJANGO_SETTINGS_MODULE"}
    outer = {name: value for name, value in os.environ.items() if name not in own}
    path = os.environ.get("PYTHONPATH", "").removeprefix(project)
    if path := path.removeprefix(os.pathsep):
        outer["PYTHONPATH"] = path
    else:
        outer.pop("PYTHONPATH", None)
    return outer
