"""Heartbeats, with which the supervisor detects a child that runs but hangs.

Each child's event loop changes its own byte of a shared file, until the loop hangs. No
clocks are compared, so a machine that wakes up from sleep kills no child.
"""

import os
from functools import partial

from core.child_processes.process_group import ProcessGroup
from processes.supervision.child import Health

INTERVAL_SECONDS = 5.0
MAX_MISSED = 6
"""A child hangs after so many missed heartbeats in a row: half a minute."""
STARTING = b"\0"
"""The byte before the first heartbeat."""


def health(descriptor: int, position: int) -> Health:
    """Return the health check of the child at this position of the shared file."""
    begin = partial(HeartbeatCheck, descriptor, position)
    return Health(INTERVAL_SECONDS, MAX_MISSED, begin)


class HeartbeatCheck:
    """The supervisor's side, for one run of a child."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position
        self._seen = STARTING
        os.pwrite(descriptor, STARTING, position)

    async def find_problem(self, _: ProcessGroup) -> str:
        """Return a problem if the byte is unchanged since the last call.

        A child that has not sent a heartbeat yet, because it starts, has none.
        """
        seen, self._seen = self._seen, os.pread(self._descriptor, 1, self._position)
        is_silent = self._seen == seen and seen not in (b"", STARTING)
        return "its event loop sends no heartbeat" if is_silent else ""


class HeartbeatSender:
    """The child's side: call `beat` from its event loop."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position
        self._count = 0

    def beat(self) -> None:
        self._count = self._count % 255 + 1
        os.pwrite(self._descriptor, bytes([self._count]), self._position)
