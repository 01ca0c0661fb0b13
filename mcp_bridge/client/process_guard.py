"""The process that kills what this one started, should this one be killed."""

import os
import subprocess
import sys
import threading
from contextlib import suppress

from mcp_bridge.client import orphan_guard

END_SECONDS = 1.0


class ProcessGuard:
    """Minds process groups, and is there as long as it has any; of any thread.

    What dies with us by the kernel's hand is but the process we started: what that one
    started in its turn, as `npx` does, is ended by this alone.
    """

    def __init__(self) -> None:
        self._minded: set[int] = set()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._told = -1
        """Where it is told."""

    def watch(self, pid: int) -> None:
        """Have the group this process leads killed when we die."""
        with self._lock:
            self._minded.add(pid)
            if self._is_there():
                self._write(f"+{pid}\n")
            else:
                self._begin()

    def forget(self, pid: int) -> None:
        """Say that a group is gone."""
        with self._lock:
            self._minded.discard(pid)
            self._write(f"-{pid}\n")
            if self._minded:
                return
            ending = self._close_input()
        if ending is not None:
            # Whoever forgets does not wait.
            threading.Thread(target=ending.wait, daemon=True).start()

    def look(self) -> None:
        """Notice its death, and put another in its place."""
        with self._lock:
            if self._minded and not self._is_there():
                self._begin()

    def close(self) -> None:
        """Let it end, killing what it minds still."""
        with self._lock:
            self._minded.clear()
            ending = self._close_input()
        if ending is not None:
            with suppress(subprocess.TimeoutExpired):
                ending.wait(timeout=END_SECONDS)

    def _is_there(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _begin(self) -> None:
        self._close_input()
        heard, self._told = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", orphan_guard.__file__],
                stdin=heard,
                start_new_session=True,
            )
        finally:
            os.close(heard)
        for pid in self._minded:
            self._write(f"+{pid}\n")

    def _close_input(self) -> "subprocess.Popen[bytes] | None":
        """Tell it no more, which ends it; return it."""
        parted, self._process = self._process, None
        if parted is not None:
            os.close(self._told)
        return parted

    def _write(self, line: str) -> None:
        # One that is gone is replaced by one that is told everything.
        if self._process is not None:
            with suppress(BrokenPipeError):
                os.write(self._told, line.encode())
