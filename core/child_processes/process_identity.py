"""Detects whether a process still runs, or another one has its pid by now."""

import psutil  # type: ignore[import-untyped]

CLOCK_DRIFT_SECONDS = 2.0
"""Tolerance for start times, which are rounded and shift when the clock is set."""


def created_at(pid: int) -> float:
    """Return when the process started, in epoch seconds; 0 if it has ended."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def is_alive(pid: int, started_at: float) -> bool:
    """Return whether the process that started then runs; a zombie has ended."""
    try:
        process = psutil.Process(pid)
        drift = abs(process.create_time() - started_at)
        return drift < CLOCK_DRIFT_SECONDS and not is_zombie(process)
    except psutil.NoSuchProcess:
        return False


def is_zombie(process: psutil.Process) -> bool:
    """Return whether a process has ended, and its parent has not noticed."""
    return bool(process.status() == psutil.STATUS_ZOMBIE)
