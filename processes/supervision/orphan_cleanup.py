"""Ends the processes in a supervisor's record, and no others."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil  # type: ignore[import-untyped]

from processes.supervision.run_state import ChildRecord

CLOCK_DRIFT_SECONDS = 1.0
"""How far the kernel's account of one start may move when the clock is set."""
END_SECONDS = 5.0


def created_at(pid: int) -> float:
    """Return when the process started, in epoch seconds; 0 if it is gone already."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def end_processes(
    children: Iterable[ChildRecord], *, grace_seconds: float = 0
) -> list[ChildRecord]:
    """End those that still run, with their process groups; return which those were.

    They get the grace to put away what they are saying, and are killed after it.
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
    """Return whether this very process runs, not another with the same pid."""
    try:
        process = psutil.Process(child.pid)
        drift = abs(process.create_time() - child.created_at)
        return drift < CLOCK_DRIFT_SECONDS and not _is_dead(process)
    except psutil.NoSuchProcess:
        return False


def kill_group(pid: int) -> None:
    """Kill the process group this process leads."""
    _signal_group(pid, signal.SIGKILL)


def terminate_group(pid: int) -> None:
    """Ask all of the process group this process leads, or led, to go."""
    _signal_group(pid, signal.SIGTERM)


def has_group(pid: int) -> bool:
    """Say whether anybody lives in the process group this process leads, or led."""
    return next(group_members(pid), None) is not None


def group_members(group: int) -> Iterator[psutil.Process]:
    """Yield those that live in a process group.

    The dead are in it, too, until whoever inherited them takes note, which in some
    containers nobody does.
    """
    for pid in psutil.pids():
        with suppress(OSError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group and not _is_dead(found := psutil.Process(pid)):
                yield found


def _signal_group(pid: int, number: signal.Signals) -> None:
    # macOS says EPERM for a group of which only the dead leader is left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _is_dead(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)
