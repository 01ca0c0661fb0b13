"""System checks of sidecars that cannot start from the current directory.

| id | what is wrong |
|---|---|
| coulisse.W901 | a sidecar's command, `cwd` or health check command does not exist |

These are warnings, because the server may be started from another directory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core import checks

from config.loading import checked_file
from core.child_processes.program import ProgramStartFailed
from processes.config import SIDECARS, SidecarConfig
from processes.sidecar_control import sidecar_process
from processes.supervision.child import outer_environment


@checks.register
def check_sidecars(**_: Any) -> list[checks.CheckMessage]:
    """Warn of missing programs."""
    config = checked_file.load()
    if config is None:
        return []
    sidecars = config.get(SIDECARS)
    return [
        checks.Warning(message, id="coulisse.W901")
        for message in _missing_program_messages(sidecars)
    ]


def _missing_program_messages(sidecars: Mapping[str, SidecarConfig]) -> Iterator[str]:
    outer = outer_environment(str(settings.BASE_DIR))
    for name, config in sidecars.items():
        program = sidecar_process.sidecar_program(config, outer)
        try:
            program.find()
        except ProgramStartFailed as exc:
            yield f"sidecar '{name}' cannot start from this directory: {exc}"
            continue
        if config.health is None:
            continue
        try:
            replace(program, command=config.health.command).find()
        except ProgramStartFailed as exc:
            yield f"the health check of sidecar '{name}' cannot start: {exc}"
