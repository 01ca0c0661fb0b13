"""Start a server in the background and wait until it answers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from processes.errors import AlreadyRunning, StartFailed
from processes.supervision import orphan_cleanup, pidfile, run_state
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir

STOP_SECONDS = 10.5
"""A supervisor whose server has not answered needs at most nine seconds."""
POLL_SECONDS = 0.05
REPORT_INTERVAL_SECONDS = 10.0
"""Interval of progress messages."""
MAX_LOG_LINES = 20


def start(
    config_path: Path,
    state: StateDir,
    *,
    limit_seconds: float,
    report: Callable[[str], None],
) -> RunRecord:
    """Run `start --foreground` in a session of its own until it serves.

    Returns the record of the run; `report` receives progress messages meanwhile. Raises
    `StartFailed` with the last lines of its log if it ends or does not answer within
    the limit, and `AlreadyRunning` if another start was quicker; then no process of
    this start is left running.
    """
    log_offset = state.log.stat().st_size if state.log.exists() else 0
    process = _spawn(config_path, state)
    try:
        run = _wait(process, state, limit_seconds, report)
    except BaseException:
        _stop(process, state)
        raise
    if run is not None:
        return run
    has_ended = process.poll() is not None
    awaited = _describe_wait(process, state)
    _stop(process, state)
    other_pid = pidfile.holder_pid(state.pid)
    if other_pid is not None:
        raise AlreadyRunning(other_pid)
    reason = f"did not answer within {limit_seconds:g} s and was stopped while it "
    reason += f"waited for {awaited}"
    if has_ended:
        reason = "ended during its start"
    log = f"end of {state.log}:\n{_tail(state, log_offset)}"
    raise StartFailed(f"the server {reason}; {log}")


def _spawn(config_path: Path, state: StateDir) -> subprocess.Popen[bytes]:
    # The child inherits the ignored signal, so it survives a closed terminal.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with state.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, settings.BASE_DIR / "manage.py", "start", "--foreground"],
            env={
                **os.environ,
                "COULISSE_CONFIG": str(config_path),
                "COULISSE_MIGRATE": "on" if settings.COULISSE_MIGRATE else "off",
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait(
    process: subprocess.Popen[bytes],
    state: StateDir,
    limit_seconds: float,
    report: Callable[[str], None],
) -> RunRecord | None:
    started_at = time.monotonic()
    reported = 0.0
    while process.poll() is None:
        passed = time.monotonic() - started_at
        if passed >= limit_seconds:
            return None
        run = _read_run(process, state)
        if run is not None and run.is_serving:
            return run
        if passed - reported >= REPORT_INTERVAL_SECONDS:
            reported = passed
            report(f"after {passed:.0f} s waiting for {_describe_wait(process, state)}")
        time.sleep(POLL_SECONDS)
    return None


def _read_run(process: subprocess.Popen[bytes], state: StateDir) -> RunRecord | None:
    run = run_state.read_record(state.record)
    return run if run is not None and run.pid == process.pid else None


def _describe_wait(process: subprocess.Popen[bytes], state: StateDir) -> str:
    run = _read_run(process, state)
    if run is None:
        return "the migrations"
    ended = [child for child in run.children if child.state == "waiting"]
    if ended:
        reasons = "; ".join(f"{child.name} {child.reason}" for child in ended)
        return f"a restart: {reasons}"
    return f"an answer from {', '.join(child.name for child in run.children)}"


def _stop(process: subprocess.Popen[bytes], state: StateDir) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=STOP_SECONDS)
        return
    run = _read_run(process, state)
    process.kill()
    process.wait()
    if run is not None:
        orphan_cleanup.end_processes(run.children)


def _tail(state: StateDir, offset: int) -> str:
    with state.log.open("rb") as log:
        log.seek(offset)
        lines = log.read().decode(errors="replace").splitlines()
    tail = "\n".join(f"  {line}" for line in lines[-MAX_LOG_LINES:])
    return tail or "  (empty)"
