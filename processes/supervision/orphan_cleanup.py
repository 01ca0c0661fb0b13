"""Ends the processes in a supervisor's record, and only those."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil  # type: ignore[import-untyped]

from processes.supervision.run_state import ChildRecord

CLOCK_DRIFT_SECONDS = 1.0
"""Tolerance for start times, which shift when the clock is set."""
END_SECONDS = 5.0


def created_at(pid: int) -> float:
    """Return when the process started, in epoch seconds; 0 if it has ended."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def end_processes(
    children: Iterable[ChildRecord], *, grace_seconds: float = 0
) -> list[ChildRecord]:
    """End the children that still run, with their process groups; return those.

    They have `grace_seconds` to finish their responses before they are killed.
    """
    alive = [child for child in children if is_alive(child)]
    if grace_seconds:
        _signal(alive, signal.SIGTERM)
        _wait(alive, grace_seconds)
    for child in filter(is_alive, alive):
        kill_group(child.pid)
    _wait(alive, END_SECONDS)
    return alive


def _signal(children: Iterable[ChildRecord], number: signal.Signals) -> None:
    for child in children:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child.pid, number)


def _wait(children: Iterable[ChildRecord], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(map(is_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.02)


def is_alive(child: ChildRecord) -> bool:
    """Return whether this process runs, not another one with the same pid."""
    try:
        process = psutil.Process(child.pid)
        drift = abs(process.create_time() - child.created_at)
        return drift < CLOCK_DRIFT_SECONDS and not _is_zombie(process)
    except psutil.NoSuchProcess:
        return False


def kill_group(pid: int) -> None:
    """Kill the process group that this process leads."""
    _signal_group(pid, signal.SIGKILL)


def terminate_group(pid: int) -> None:
    """Send SIGTERM to the process group that this process leads or led."""
    _signal_group(pid, signal.SIGTERM)


def has_group(pid: int) -> bool:
    """Return whether the process group that this process leads or led has members."""
    return next(group_members(pid), None) is not None


def group_members(group: int) -> Iterator[psutil.Process]:
    """Yield the live processes of a process group.

    A group also contains zombies until their parent reaps them; in some containers, no
    parent does.
    """
    for pid in psutil.pids():
        with suppress(OSError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group and not _is_zombie(
                process := psutil.Process(pid)
            ):
                yield process


def _signal_group(pid: int, number: signal.Signals) -> None:
    # macOS reports EPERM for a group that consists only of a zombie.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _is_zombie(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)
