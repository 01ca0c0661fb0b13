"""Stops a server that another command started."""

import os
import signal
from contextlib import suppress

from core.child_processes import process_identity
from processes.errors import ServerStillRunning
from processes.supervision import orphan_cleanup, pidfile, run_state
from processes.supervision.run_state import ChildRecord
from processes.supervision.state_directory import StateDir

GRACE_SECONDS = 10.0
FORCE_SECONDS = 5.0


def stop_server(state: StateDir, *, force: bool) -> int | None:
    """Stop the server with SIGTERM or SIGKILL, and return its pid.

    Returns None if no server runs, after removing a stale pid file. Raises
    `ServerStillRunning` if the server does not end in time.
    """
    pid = pidfile.holder_pid(state.pid)
    if pid is None:
        clean_up(state)
        return None
    created_at = process_identity.created_at(pid)
    server = ChildRecord("server", "running", pid=pid, created_at=created_at)
    if force:
        _kill(pid, state)
    else:
        _send(pid, signal.SIGTERM)
    seconds = FORCE_SECONDS if force else GRACE_SECONDS
    if not orphan_cleanup.wait_for_end([server], seconds):
        raise ServerStillRunning(_still_running_message(pid, force=force))
    clean_up(state)
    return pid


def clean_up(state: StateDir) -> None:
    """End the processes of a killed server, and remove its files."""
    if not (state.pid.exists() or state.record.exists()):
        return
    # No server may start meanwhile, because this removes its record and its pid file.
    with pidfile.lock_out_servers(state.pid) as is_locked:
        if is_locked:
            run = run_state.read_record(state.record)
            orphan_cleanup.end_processes(run.children if run else ())
            state.record.unlink(missing_ok=True)


def _kill(pid: int, state: StateDir) -> None:
    # Read before the kill, because the record is reliable only while its writer lives.
    run = run_state.read_record(state.record)
    _send(pid, signal.SIGKILL)
    orphan_cleanup.end_processes(run.children if run else ())


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _still_running_message(pid: int, *, force: bool) -> str:
    if force:
        return (
            f"pid {pid} was killed but has not ended after {FORCE_SECONDS:g} s: check "
            "its state with `ps`, then try again"
        )
    return f"pid {pid} still runs after {GRACE_SECONDS:g} s: run `stop --force`"
