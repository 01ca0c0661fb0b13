"""Whether a server runs, and with which YAML: the common checks of commands."""

import os
from pathlib import Path

from processes.errors import NotRunning, OtherConfigRunning
from processes.supervision import run_state
from processes.supervision.pidfile import holder_pid
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir, describe_path


def find_running(state: StateDir) -> tuple[int, RunRecord | None] | None:
    """Return the pid and the record of the running server, or None.

    The record does not exist yet while the server starts.
    """
    pid = holder_pid(state.pid)
    if pid is None:
        return None
    run = run_state.read_record(state.record)
    return pid, run if run is not None and run.pid == pid else None


def is_serving_config(run: RunRecord, config: Path) -> bool:
    """Return whether a server uses this YAML, compared by resolved path."""
    return os.path.realpath(run.config) == os.path.realpath(config)


def require_same_config(state: StateDir, config: Path) -> None:
    """Raise `OtherConfigRunning` if the running server uses another YAML."""
    running = find_running(state)
    run = running[1] if running else None
    if run is not None and not is_serving_config(run, config):
        path = describe_path(Path(run.config))
        raise OtherConfigRunning(
            f"pid {run.pid} serves {path}, not {describe_path(config)}: pass --config "
            f"{path}, or --force"
        )


def require_running(state: StateDir) -> RunRecord:
    """Return the record of the running server, or raise `NotRunning`."""
    running = find_running(state)
    if running is None:
        raise NotRunning("not running: start the server with `coulisse start`")
    pid, run = running
    if run is None:
        raise NotRunning(f"pid {pid} is still starting: try again in a moment")
    return run
