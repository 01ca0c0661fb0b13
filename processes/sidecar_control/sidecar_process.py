"""One sidecar: started, watched, health-checked and restarted."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from processes.config import HealthConfig, SidecarConfig
from processes.errors import ProgramStartFailed
from processes.sidecar_control.sidecar_records import SidecarRecord, State
from processes.supervision.child_process import describe_exit
from processes.supervision.log_pipe import OutputLogger
from processes.supervision.process_groups import ProcessGroup, ProcessGroups, Program

MIN_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0
STABLE_SECONDS = 60.0
"""A sidecar that ran this long is stable: its backoff starts over."""

NAME = "COULISSE_SIDECAR"
"""The variable that passes a sidecar's name to it and to its child processes."""

logger = logging.getLogger("processes.sidecars")


@dataclass(frozen=True, slots=True)
class SidecarExit:
    """How a sidecar ended, or why it could not start."""

    reason: str
    """Follows the sidecar's name in messages: `ended with exit code 3`."""
    is_clean: bool = False


def sidecar_program(sidecar: SidecarConfig, outer: dict[str, str]) -> Program:
    """Return a sidecar's program, with the outer environment and its own variables."""
    own = {name: value.get_secret_value() for name, value in sidecar.env.items()}
    folder = Path.cwd() / (sidecar.cwd or "")
    environment = {**outer, NAME: sidecar.name, **own}
    return Program(sidecar.command, sidecar.args, folder, environment)


class SidecarProcess:
    """A sidecar of the YAML, and its current process, if any."""

    def __init__(
        self,
        config: SidecarConfig,
        program: Program,
        groups: ProcessGroups,
        *,
        changed: Callable[[], None],
    ) -> None:
        self.config = config
        self._program = program
        self._groups = groups
        self._changed = changed
        """Called whenever its record changes."""
        self.output = OutputLogger(config.name)
        self._pause_seconds = MIN_BACKOFF_SECONDS
        self._can_check_health = True
        self._restarts = 0
        self.record = SidecarRecord(config.name, "waiting", 0, "", None, 0, 0)

    async def run(self) -> None:
        """Keep it running until it ends without a restart, or until cancelled."""
        while True:
            started_at = time.monotonic()
            result = await self._run_once()
            if not self._should_restart(result):
                self._finish(result)
                return
            if time.monotonic() - started_at >= STABLE_SECONDS:
                self._pause_seconds = MIN_BACKOFF_SECONDS
            await self._pause(result)
            self._restarts += 1

    async def _run_once(self) -> SidecarExit:
        """Start it, and return how it ended."""
        try:
            group = self._groups.start(self._program, self.output.add)
        except ProgramStartFailed as exc:
            return SidecarExit(f"cannot start: {exc}")
        self._set_state("running", group=group)
        try:
            return await self._watch(group)
        finally:
            was_running = not group.ended.done()
            if await group.end(self.config.stop_seconds) and was_running:
                self._log(
                    logging.WARNING,
                    f"did not end within {self.config.stop_seconds:g} s; killed",
                )
            self.output.log_dropped()

    async def _watch(self, group: ProcessGroup) -> SidecarExit:
        """Return when it has ended or stayed unhealthy for too long."""
        health = self.config.health
        if health is None:
            await asyncio.wait({group.ended})
        elif problem := await self._monitor_health(health, group):
            return SidecarExit(f"was unhealthy: {problem}")
        code = group.ended.result()
        return SidecarExit(f"ended with {describe_exit(code)}", is_clean=code == 0)

    async def _monitor_health(self, health: HealthConfig, group: ProcessGroup) -> str:
        """Return the last problem after too many; empty once the sidecar has ended."""
        failures, seconds = 0, health.interval_seconds
        while not (await asyncio.wait({group.ended}, timeout=seconds))[0]:
            problem = await self._check_health(health, group)
            failures = failures + 1 if problem else 0
            if problem:
                count = f"{failures} of {health.failures}"
                self._log(logging.WARNING, f"is unhealthy, {count}: {problem}")
            if failures >= health.failures:
                return problem
        return ""

    async def _check_health(self, health: HealthConfig, group: ProcessGroup) -> str:
        """Return the sidecar's problem; empty if it is healthy."""
        program = Program(
            health.command,
            health.args,
            self._program.folder,
            self._program.environment,
        )
        try:
            check = self._groups.start(program)
        except ProgramStartFailed as exc:
            # This says nothing about the sidecar.
            if self._can_check_health:
                self._can_check_health = False
                self._log(logging.ERROR, f"health check cannot start: {exc}")
            return ""
        try:
            await asyncio.wait(
                {check.ended, group.ended},
                timeout=health.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return "" if group.ended.done() else _health_problem(check, health)
        finally:
            check.close()

    def _should_restart(self, result: SidecarExit) -> bool:
        match self.config.restart:
            case "always":
                return True
            case "on-failure":
                return not result.is_clean
            case "never":
                return False
            case _:
                assert_never(self.config.restart)

    async def _pause(self, result: SidecarExit) -> None:
        seconds = self._pause_seconds
        self._pause_seconds = min(seconds * 2, MAX_BACKOFF_SECONDS)
        self._set_state("waiting", result.reason, due_at=time.time() + seconds)
        self._log(
            logging.INFO if result.is_clean else logging.WARNING,
            f"{result.reason}; restarting in {seconds:g} s",
        )
        await asyncio.sleep(seconds)

    def _finish(self, result: SidecarExit) -> None:
        self._set_state("finished" if result.is_clean else "failed", result.reason)
        self._log(
            logging.INFO if result.is_clean else logging.ERROR,
            f"{result.reason}; not restarting",
        )

    def _set_state(
        self,
        state: State,
        reason: str | None = None,
        *,
        group: ProcessGroup | None = None,
        due_at: float = 0,
    ) -> None:
        self.record = SidecarRecord(
            name=self.config.name,
            state=state,
            restarts=self._restarts,
            reason=self.record.reason if reason is None else reason,
            pid=None if group is None else group.pid,
            created_at=0 if group is None else group.created_at,
            due_at=due_at,
        )
        self._changed()

    def _log(self, level: int, text: str) -> None:
        name = self.config.name
        fields = {"sidecar": name}
        logger.log(level, "sidecar=%s %s", name, text, extra={"fields": fields})


def _health_problem(check: ProcessGroup, health: HealthConfig) -> str:
    if not check.ended.done():
        return f"its health check took more than {health.timeout_seconds:g} s"
    code = check.ended.result()
    return "" if code == 0 else f"its health check ended with {describe_exit(code)}"
