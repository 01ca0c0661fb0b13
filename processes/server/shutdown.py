"""Stops a server that another command started."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from core.child_processes import process_identity
from processes.errors import ServerStillRunning
from processes.supervision import orphan_cleanup, pidfile, run_state
from processes.supervision.run_state import ChildRecord
from processes.supervision.state_directory import StateDir

ANSWER_SECONDS = 10.0
"""Time of a server to say how long it takes to stop."""
FORCE_SECONDS = 5.0
MARGIN_SECONDS = 1.0
POLL_SECONDS = 0.1
QUIET_SECONDS = 2.0
REPORT_INTERVAL_SECONDS = 10.0
WORK = {"web": "open replies", "worker": "running tasks"}
"""The work that a process may finish."""


def stop_server(
    state: StateDir, *, force: bool, report: Callable[[str], None] = lambda _: None
) -> int | None:
    """Stop the server with SIGTERM or SIGKILL, and return its pid.

    `report` receives what it waits for. Returns None if no server runs, after removing
    a stale pid file. Raises `ServerStillRunning` if the server does not end in time.
    """
    pid = pidfile.holder_pid(state.pid)
    if pid is None:
        clean_up(state)
        return None
    created_at = process_identity.created_at(pid)
    server = ChildRecord("server", "running", pid=pid, created_at=created_at)
    if force:
        _kill(pid, state)
        if not orphan_cleanup.wait_for_end([server], FORCE_SECONDS):
            raise ServerStillRunning(
                f"pid {pid} was killed but has not ended after {FORCE_SECONDS:g} s: "
                "check its state with `ps`, then try again"
            )
    else:
        if not _read_stops_by(pid, state):  # A second signal would end it at once.
            _send(pid, signal.SIGTERM)
        _wait_for_end(server, pid, state, report)
    clean_up(state)
    return pid


def _wait_for_end(
    server: ChildRecord, pid: int, state: StateDir, report: Callable[[str], None]
) -> None:
    """Wait as long as the server says that it needs.

    Raises `ServerStillRunning`.
    """
    started_at = time.time()
    limit = started_at + ANSWER_SECONDS
    reported_at = started_at + QUIET_SECONDS - REPORT_INTERVAL_SECONDS
    while not orphan_cleanup.wait_for_end([server], POLL_SECONDS):
        if stops_by := _read_stops_by(pid, state):
            limit = stops_by + MARGIN_SECONDS
        now = time.time()
        if now > limit:
            raise ServerStillRunning(
                f"pid {pid} still runs after {now - started_at:.0f} s: "
                "run `stop --force`"
            )
        if now - reported_at >= REPORT_INTERVAL_SECONDS:
            reported_at = now
            work = _describe_work(state)
            report(
                f"waiting for {work}, {limit - now:.0f} s at most; "
                "`stop --force` ends them at once"
            )


def _read_stops_by(pid: int, state: StateDir) -> float:
    run = run_state.read_record(state.record)
    return run.stops_by if run is not None and run.pid == pid else 0.0


def _describe_work(state: StateDir) -> str:
    """Return the processes that still run, with what they may finish."""
    run = run_state.read_record(state.record)
    alive = [] if run is None else filter(orphan_cleanup.is_alive, run.children)
    names = {}
    for child in alive:
        kind = child.name.partition("-")[0]
        names[child.name] = WORK.get(kind, "")
    has_work = any(names.values())
    return (
        ", ".join(
            f"{work} ({name})" if work else name
            for name, work in names.items()
            if work or not has_work
        )
        or "the end of the server"
    )


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
