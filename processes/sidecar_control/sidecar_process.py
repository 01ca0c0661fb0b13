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
"""One that ran this long is well: its next end pauses briefly again."""

NAME = "COULISSE_SIDECAR"
"""The variable that tells a sidecar, and what it starts, its name."""

logger = logging.getLogger("processes.sidecars")


@dataclass(frozen=True, slots=True)
class SidecarExit:
    """How a sidecar ended, or why it could not start."""

    reason: str
    """Goes on after its name: `ended with exit code 3`."""
    is_clean: bool = False


def sidecar_program(sidecar: SidecarConfig, outer: dict[str, str]) -> Program:
    """Return what a sidecar runs, in the environment outside of us and its own."""
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
        self.told = OutputLogger(config.name)
        self._pause_seconds = MIN_BACKOFF_SECONDS
        self._is_health_known = True
        self._restarts = 0
        self.record = SidecarRecord(config.name, "waiting", 0, "", None, 0, 0)

    async def run(self) -> None:
        """Keep it running until it ends for good, or until this is cancelled."""
        while True:
            started_at = time.monotonic()
            ending = await self._run_once()
            if not self._starts_again(ending):
                self._stop_for_good(ending)
                return
            if time.monotonic() - started_at >= STABLE_SECONDS:
                self._pause_seconds = MIN_BACKOFF_SECONDS
            await self._pause(ending)
            self._restarts += 1

    async def _run_once(self) -> SidecarExit:
        """Start it, and return how it ended."""
        try:
            group = self._groups.start(self._program, self.told.add)
        except ProgramStartFailed as exc:
            return SidecarExit(f"cannot be started: {exc}")
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
            self.told.log_dropped()

    async def _watch(self, group: ProcessGroup) -> SidecarExit:
        """Return when it has ended or stayed unhealthy for too long."""
        health = self.config.health
        if health is None:
            await asyncio.wait({group.ended})
        elif trouble := await self._monitor_health(health, group):
            return SidecarExit(f"was not well: {trouble}")
        code = group.ended.result()
        return SidecarExit(f"ended with {describe_exit(code)}", is_clean=code == 0)

    async def _monitor_health(self, health: HealthConfig, group: ProcessGroup) -> str:
        """Return what was wrong too often, or nothing once the sidecar ended."""
        misses, seconds = 0, health.interval_seconds
        while not (await asyncio.wait({group.ended}, timeout=seconds))[0]:
            trouble = await self._check_health(health, group)
            misses = misses + 1 if trouble else 0
            if trouble:
                count = f"{misses} of {health.failures}"
                self._log(logging.WARNING, f"is not well, {count}: {trouble}")
            if misses >= health.failures:
                return trouble
        return ""

    async def _check_health(self, health: HealthConfig, group: ProcessGroup) -> str:
        """Return what is wrong with it; empty if it is healthy."""
        where = self._program
        asks = Program(health.command, health.args, where.folder, where.environment)
        try:
            asked = self._groups.start(asks)
        except ProgramStartFailed as exc:
            # That says nothing of the sidecar.
            if self._is_health_known:
                self._is_health_known = False
                said = f"cannot be asked whether it is well: {exc}"
                self._log(logging.ERROR, said)
            return ""
        try:
            await asyncio.wait(
                {asked.ended, group.ended},
                timeout=health.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return "" if group.ended.done() else _health_problem(asked, health)
        finally:
            asked.close()

    def _starts_again(self, ending: SidecarExit) -> bool:
        match self.config.restart:
            case "always":
                return True
            case "on-failure":
                return not ending.is_clean
            case "never":
                return False
            case _:
                assert_never(self.config.restart)

    async def _pause(self, ending: SidecarExit) -> None:
        seconds = self._pause_seconds
        self._pause_seconds = min(seconds * 2, MAX_BACKOFF_SECONDS)
        self._set_state("waiting", ending.reason, due_at=time.time() + seconds)
        self._log(
            logging.INFO if ending.is_clean else logging.WARNING,
            f"{ending.reason}; starting it again in {seconds:g} s",
        )
        await asyncio.sleep(seconds)

    def _stop_for_good(self, ending: SidecarExit) -> None:
        self._set_state("finished" if ending.is_clean else "failed", ending.reason)
        self._log(
            logging.INFO if ending.is_clean else logging.ERROR,
            f"{ending.reason}; it is not started again",
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

    def _log(self, level: int, what: str) -> None:
        name = self.config.name
        fields = {"sidecar": name}
        logger.log(level, "sidecar=%s %s", name, what, extra={"fields": fields})


def _health_problem(asked: ProcessGroup, health: HealthConfig) -> str:
    if not asked.ended.done():
        return f"its health check took more than {health.timeout_seconds:g} s"
    code = asked.ended.result()
    return "" if code == 0 else f"its health check ended with {describe_exit(code)}"
