"""Ends the processes in a supervisor's record, and only those."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from core.child_processes import process_identity
from processes.supervision.run_state import ChildRecord

END_SECONDS = 5.0


def end_processes(
    children: Iterable[ChildRecord], *, grace_seconds: float = 0
) -> list[ChildRecord]:
    """End the children that still run, with their process groups; return those.

    They have `grace_seconds` to finish their responses before they are killed.
    """
    alive = [child for child in children if is_alive(child)]
    if grace_seconds:
        _signal(alive, signal.SIGTERM, os.kill)
        wait_for_end(alive, grace_seconds)
    _signal(filter(is_alive, alive), signal.SIGKILL, os.killpg)
    wait_for_end(alive, END_SECONDS)
    return alive


def _signal(
    children: Iterable[ChildRecord], number: int, send: Callable[[int, int], None]
) -> None:
    for pid in filter(None, (child.pid for child in children)):
        with suppress(ProcessLookupError, PermissionError):
            send(pid, number)


def wait_for_end(children: Sequence[ChildRecord], seconds: float) -> bool:
    """Return whether all end within this time."""
    deadline = time.monotonic() + seconds
    while any(map(is_alive, children)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_alive(child: ChildRecord) -> bool:
    """Return whether its process runs, not another one with the same pid."""
    return child.pid is not None and process_identity.is_alive(
        child.pid, child.created_at
    )
