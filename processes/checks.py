"""What `manage.py check` says of sidecars that would not start from here.

| id | what is wrong |
|---|---|
| coulisse.W901 | a sidecar's command or `cwd`, or its health's command, is not there |

Warnings: the server may be started from elsewhere, where they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core import checks

from config.loading import checked_file
from processes.config import SIDECARS, SidecarConfig
from processes.errors import ProgramStartFailed
from processes.sidecar_control import sidecar_process
from processes.supervision import process_groups
from processes.supervision.child_process import outer_environment


@checks.register
def check_sidecars(**_: Any) -> list[checks.CheckMessage]:
    """Warn of programs that cannot be found."""
    config = checked_file.load()
    if config is None:
        return []
    sidecars = config.get(SIDECARS)
    return [
        checks.Warning(message, id="coulisse.W901")
        for message in _missing_program_messages(sidecars)
    ]


def _missing_program_messages(sidecars: Mapping[str, SidecarConfig]) -> Iterator[str]:
    """Yield a message for each missing program."""
    outer = outer_environment(str(settings.BASE_DIR))
    for name, config in sidecars.items():
        program = sidecar_process.sidecar_program(config, outer)
        try:
            process_groups.find_program(program)
        except ProgramStartFailed as exc:
            yield f"sidecar '{name}' cannot be started from here: {exc}"
            continue
        if config.health is None:
            continue
        try:
            process_groups.find_program(replace(program, command=config.health.command))
        except ProgramStartFailed as exc:
            yield f"sidecar '{name}' cannot be asked whether it is well: {exc}"
