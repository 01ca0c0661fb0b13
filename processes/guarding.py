"""The process that kills what this one started, should this one be killed."""

import os
import subprocess
import sys
from contextlib import suppress

from processes import guard

END_SECONDS = 1.0


class Guard:
    """Minds process groups; started again when it is gone itself."""

    def __init__(self) -> None:
        self._minded: set[int] = set()
        self._begin()

    def mind(self, pid: int) -> None:
        """Have the group this process leads killed when we die."""
        self._minded.add(pid)
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Say that a group is gone."""
        self._minded.discard(pid)
        self._tell(f"-{pid}\n")

    def look(self) -> None:
        """Notice its death, and put another in its place."""
        if self._process.poll() is not None:
            os.close(self._told)
            self._begin()

    def close(self) -> None:
        """Let it end, killing what it minds still."""
        os.close(self._told)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_SECONDS)

    def _begin(self) -> None:
        heard, self._told = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__],
                stdin=heard,
                start_new_session=True,
            )
        finally:
            os.close(heard)
        for pid in self._minded:
            self._tell(f"+{pid}\n")

    def _tell(self, line: str) -> None:
        # One that is gone is replaced by one that is told everything.
        with suppress(BrokenPipeError):
            os.write(self._told, line.encode())
