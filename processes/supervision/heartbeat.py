"""How a supervisor notices a child that runs and does nothing.

Each child's event loop changes one byte of a file they share; a loop that hangs
changes it no more. Nobody compares clocks, so a machine that slept kills no one.
"""

import os


class HeartbeatTable:
    """The shared file, as the supervisor sees it: a byte for each child."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen: dict[int, bytes] = {}
        self._misses: dict[int, int] = {}

    def count_misses(self, position: int) -> int:
        """Look, and return how many looks in a row found what the one before found.

        A child that has not begun to beat, as while it starts, misses none.
        """
        beat = os.pread(self._descriptor, 1, position)
        is_silent = beat == self._seen.get(position) and beat not in (b"", b"\0")
        self._seen[position] = beat
        self._misses[position] = self._misses.get(position, 0) + 1 if is_silent else 0
        return self._misses[position]

    def reset(self, position: int) -> None:
        """Await the first beat of a new process."""
        os.pwrite(self._descriptor, b"\0", position)
        # It may begin with the very beat at which the one before it stopped.
        self._seen.pop(position, None)
        self._misses.pop(position, None)


class HeartbeatSender:
    """A child's side: `beat` from its event loop."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position
        self._count = 0

    def beat(self) -> None:
        self._count = self._count % 255 + 1
        os.pwrite(self._descriptor, bytes([self._count]), self._position)
