"""One child process: started, watched, health-checked, restarted and stopped."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from core.child_processes.process_group import ProcessGroup
from core.child_processes.program import (
    Program,
    ProgramStartFailed,
    describe_exit,
    kill_group,
)
from core.runtime.backoff import Backoff
from processes.config import Restart
from processes.supervision.log_pipe import OutputLogger
from processes.supervision.run_state import ChildRecord, State
from telemetry.log_output import formatters

STABLE_SECONDS = 60.0
"""A child that ran this long is stable: its backoff starts over."""

logger = logging.getLogger(__name__)


class HealthCheck(Protocol):
    """Detects that one process runs but hangs."""

    async def find_problem(self, group: ProcessGroup) -> str:
        """Return the problem; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Health:
    """How often a child is checked."""

    interval_seconds: float
    failures: int
    """Consecutive failed checks after which it is stopped, as at a failure."""
    begin: Callable[[], HealthCheck]
    """Called before each start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What a child runs, and when it restarts and stops."""

    name: str
    program: Program
    restart: Restart = "always"
    min_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 30.0
    health: Health | None = None
    stop_seconds: float = 0
    """Time to end after SIGTERM before it is killed."""
    core: int | None = None
    """The processor core that all its threads stay on; None if on any."""
    output: OutputLogger | None = None
    """Receives its output; None if it writes to ours."""
    log_fields: Mapping[str, str] = field(default_factory=dict)
    """Name it in log messages, in place of its name."""
    serves_clients: bool = False
    """Whether it accepts connections on the server's port."""
    is_required: bool = True
    """Whether the server cannot answer without it."""
    follows_web: bool = False
    """Whether it starts only after the server answers, to leave the cores to it."""
    outlives_web: bool = False
    """Whether others need it until their last stream or job has finished."""
    is_needed: Callable[[], bool] = lambda: True
    """Returns whether to start it; called until it has started."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended, or why it could not start."""

    reason: str
    """Follows the child's name in messages: `ended with exit code 3`."""
    is_clean: bool = False


class Child:
    """A program, and its current process, if any."""

    def __init__(self, spec: ChildSpec, *, changed: Callable[[], None]) -> None:
        self.spec = spec
        self._changed = changed
        """Called whenever its record changes."""
        self._backoff = Backoff(spec.min_backoff_seconds, spec.max_backoff_seconds)
        self._stop_seconds = spec.stop_seconds
        self._group: ProcessGroup | None = None
        self._restarts = 0
        self.record = ChildRecord(spec.name, "waiting")
        self.task: asyncio.Task[None] | None = None
        """Keeps it running; ends when it does not restart."""

    @property
    def is_running(self) -> bool:
        return self._group is not None

    def start(self) -> None:
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(_log_failure)

    async def stop(self, seconds: float | None = None) -> None:
        """End it for good; `seconds` replaces its `stop_seconds`."""
        if seconds is not None:
            self._stop_seconds = seconds
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})

    def kill(self) -> None:
        """Kill the process with everything it started."""
        if self._group is not None:
            kill_group(self._group.pid)

    async def _run(self) -> None:
        while True:
            started_at = time.monotonic()
            result = await self._run_once()
            if not self._should_restart(result):
                self._finish(result)
                return
            if time.monotonic() - started_at >= STABLE_SECONDS:
                self._backoff.reset()
            await self._pause(result)

    async def _run_once(self) -> Exit:
        """Start it, and return how it ended."""
        health, output = self.spec.health, self.spec.output
        check = None if health is None else health.begin()
        on_line = {} if output is None else output.receivers()
        try:
            group = await ProcessGroup.start(
                self.spec.program, stdout=None, stderr=None, on_line=on_line
            )
        except ProgramStartFailed as exc:
            return Exit(f"cannot start: {exc}")
        self._group = group
        if self.spec.core is not None:
            # Before it starts threads, which inherit it.
            with suppress(ProcessLookupError):
                os.sched_setaffinity(group.pid, {self.spec.core})
        self._set_state("running")
        try:
            if health is None or check is None:
                await asyncio.wait({group.ended})
            elif problem := await self._monitor(health, check, group):
                return Exit(f"was unhealthy: {problem}")
            code = group.ended.result()
            return Exit(f"ended with {describe_exit(code)}", is_clean=code == 0)
        finally:
            await self._end(group)

    async def _end(self, group: ProcessGroup) -> None:
        was_running, seconds = not group.ended.done(), self._stop_seconds
        if await group.end(seconds) and was_running:
            self._log(logging.WARNING, f"did not end within {seconds:.2g} s; killed")
        self._group = None
        if self.spec.output is not None:
            self.spec.output.log_dropped()

    async def _monitor(
        self, health: Health, check: HealthCheck, group: ProcessGroup
    ) -> str:
        """Return the last problem after too many; empty once the child has ended."""
        failures = 0
        while await group.wait(health.interval_seconds) is None:
            problem = await check.find_problem(group)
            failures = failures + 1 if problem else 0
            if problem:
                count = f"{failures} of {health.failures}"
                self._log(logging.WARNING, f"is unhealthy, {count}: {problem}")
            if failures >= health.failures:
                return problem
        return ""

    def _should_restart(self, result: Exit) -> bool:
        match self.spec.restart:
            case "always":
                return True
            case "on-failure":
                return not result.is_clean
            case "never":
                return False
            case _:
                assert_never(self.spec.restart)

    async def _pause(self, result: Exit) -> None:
        seconds = self._backoff.next_seconds()
        self._restarts += 1
        self._set_state("waiting", result.reason, due_at=time.time() + seconds)
        self._log(
            logging.INFO if result.is_clean else logging.WARNING,
            f"{result.reason}; restarting in {seconds:g} s",
        )
        await asyncio.sleep(seconds)

    def _finish(self, result: Exit) -> None:
        self._set_state("finished" if result.is_clean else "failed", result.reason)
        self._log(
            logging.INFO if result.is_clean else logging.ERROR,
            f"{result.reason}; not restarting",
        )

    def _set_state(self, state: State, reason: str = "", *, due_at: float = 0) -> None:
        group = self._group
        self.record = ChildRecord(
            name=self.spec.name,
            state=state,
            restarts=self._restarts,
            reason=reason or self.record.reason,
            pid=None if group is None else group.pid,
            created_at=0 if group is None else group.created_at,
            due_at=due_at,
        )
        self._changed()

    def _log(self, level: int, text: str) -> None:
        fields = self.spec.log_fields
        label = " ".join(f"{key}={value}" for key, value in fields.items())
        name = label or self.spec.name
        logger.log(level, "%s %s", name, text, extra={"fields": fields})


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a child is no longer supervised", exc_info=error)


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
