"""What the commands about processes have in common."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from config.management.base import ConfigCommand
from core.errors import CoulisseError
from processes.errors import NotRunning, OtherConfigRunning
from processes.supervision import run_state
from processes.supervision.pidfile import holder_pid
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir, describe_path

INTERRUPTED = 130
"""What shells expect of a program ended by ^C."""


class ProcessCommand(ConfigCommand):
    """A command whose errors of ours end it with their message and exit code 1."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CoulisseError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("interrupted", returncode=INTERRUPTED) from exc


def find_running(state: StateDir) -> tuple[int, RunRecord | None] | None:
    """Return the pid and the record of the running server, or None.

    The record is missing for a moment while the server starts.
    """
    pid = holder_pid(state.pid)
    if pid is None:
        return None
    run = run_state.read_record(state.record)
    return pid, run if run is not None and run.pid == pid else None


def is_serving_config(run: RunRecord, config: Path) -> bool:
    """Return whether a server runs this YAML, by resolved path."""
    return os.path.realpath(run.config) == os.path.realpath(config)


def require_same_config(state: StateDir, config: Path) -> None:
    """Raise `OtherConfigRunning` when the running server has another YAML than this."""
    found = find_running(state)
    run = found[1] if found else None
    if run is not None and not is_serving_config(run, config):
        raise OtherConfigRunning(
            f"pid {run.pid} serves {describe_path(Path(run.config))}, not "
            f"{describe_path(config)}: name that one, or pass --force"
        )


def require_running(state: StateDir) -> RunRecord:
    """Return the record of the running server, or raise `NotRunning`."""
    found = find_running(state)
    if found is None:
        raise NotRunning("not running: `manage.py start` starts the server")
    pid, run = found
    if run is None:
        raise NotRunning(f"pid {pid} is still starting: try again in a moment")
    return run
