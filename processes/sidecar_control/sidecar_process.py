"""Declares the sidecars of the YAML as child processes."""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

from core.child_processes.process_group import ProcessGroup
from core.child_processes.program import Program, ProgramStartFailed, describe_exit
from processes.config import HealthConfig, SidecarConfig
from processes.supervision.child import ChildSpec, Health
from processes.supervision.log_pipe import OutputLogger

MIN_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0

NAME = "COULISSE_SIDECAR"
"""The variable that passes a sidecar's name to it and to its child processes."""

logger = logging.getLogger("processes.sidecars")


def sidecar_program(sidecar: SidecarConfig, outer: dict[str, str]) -> Program:
    """Return a sidecar's program, with the outer environment and its own variables."""
    own = {name: value.get_secret_value() for name, value in sidecar.env.items()}
    folder = Path.cwd() / (sidecar.cwd or "")
    environment = {**outer, NAME: sidecar.name, **own}
    return Program(sidecar.command, sidecar.args, folder, environment)


def sidecar_spec(sidecar: SidecarConfig, outer: dict[str, str]) -> ChildSpec:
    """Return the declaration of a sidecar."""
    return ChildSpec(
        name=sidecar.name,
        program=sidecar_program(sidecar, outer),
        restart=sidecar.restart,
        min_backoff_seconds=MIN_BACKOFF_SECONDS,
        max_backoff_seconds=MAX_BACKOFF_SECONDS,
        health=_health(sidecar),
        stop_seconds=sidecar.stop_seconds,
        output=OutputLogger(sidecar.name),
        log_fields={"sidecar": sidecar.name},
    )


def _health(sidecar: SidecarConfig) -> Health | None:
    config = sidecar.health
    if config is None:
        return None
    begin = partial(CommandCheck, sidecar.name, config)
    return Health(config.interval_seconds, config.failures, begin)


class CommandCheck:
    """The health check of the YAML, for one run of a sidecar."""

    def __init__(self, name: str, health: HealthConfig) -> None:
        self._name = name
        self._health = health
        self._can_start = True

    async def find_problem(self, group: ProcessGroup) -> str:
        """Run the command in the folder and the environment of the sidecar."""
        health = self._health
        program = replace(group.program, command=health.command, args=health.args)
        try:
            check = await ProcessGroup.start(program)
        except ProgramStartFailed as exc:
            # This says nothing about the sidecar.
            self._log_start_failure(exc)
            return ""
        try:
            await asyncio.wait(
                {check.ended, group.ended},
                timeout=health.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return "" if group.ended.done() else _describe_problem(check, health)
        finally:
            await check.close()

    def _log_start_failure(self, exc: ProgramStartFailed) -> None:
        if self._can_start:
            self._can_start = False
            logger.error(
                "sidecar=%s health check cannot start: %s",
                self._name,
                exc,
                extra={"fields": {"sidecar": self._name}},
            )


def _describe_problem(check: ProcessGroup, health: HealthConfig) -> str:
    code = check.exit_code
    if code is None:
        return f"its health check took more than {health.timeout_seconds:g} s"
    return "" if code == 0 else f"its health check ended with {describe_exit(code)}"
