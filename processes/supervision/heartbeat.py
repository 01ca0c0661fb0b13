"""Heartbeats, with which the supervisor detects a child that runs but hangs.

Each child's event loop changes its own byte of a shared file, until the loop hangs. No
clocks are compared, so a machine that wakes up from sleep kills no child.
"""

import os


class HeartbeatTable:
    """The supervisor's side of the shared file: one byte per child."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen: dict[int, bytes] = {}
        self._misses: dict[int, int] = {}

    def count_misses(self, position: int) -> int:
        """Read a child's byte; return how many reads in a row found it unchanged.

        A child that has not sent a heartbeat yet, because it starts, misses none.
        """
        beat = os.pread(self._descriptor, 1, position)
        is_silent = beat == self._seen.get(position) and beat not in (b"", b"\0")
        self._seen[position] = beat
        self._misses[position] = self._misses.get(position, 0) + 1 if is_silent else 0
        return self._misses[position]

    def reset(self, position: int) -> None:
        """Wait for the first heartbeat of a new process."""
        os.pwrite(self._descriptor, b"\0", position)
        # Its first byte may equal the last one of the process before it.
        self._seen.pop(position, None)
        self._misses.pop(position, None)


class HeartbeatSender:
    """The child's side: call `beat` from its event loop."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position
        self._count = 0

    def beat(self) -> None:
        self._count = self._count % 255 + 1
        os.pwrite(self._descriptor, bytes([self._count]), self._position)
