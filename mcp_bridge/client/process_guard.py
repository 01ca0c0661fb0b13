"""The process that kills the children of this process if it is killed."""

import os
import subprocess
import sys
import threading
from contextlib import suppress

from mcp_bridge.client import orphan_guard

END_SECONDS = 1.0


class ProcessGuard:
    """Watches process groups and runs while it has any; thread-safe.

    The kernel kills only direct children together with this process; the guard also
    ends their children, as `npx` starts them.
    """

    def __init__(self) -> None:
        self._minded: set[int] = set()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._told = -1
        """The write end of its input pipe."""

    def watch(self, pid: int) -> None:
        """Register the group led by this process, to kill it if we die."""
        with self._lock:
            self._minded.add(pid)
            if self._is_there():
                self._write(f"+{pid}\n")
            else:
                self._begin()

    def forget(self, pid: int) -> None:
        """Deregister a group that is gone."""
        with self._lock:
            self._minded.discard(pid)
            self._write(f"-{pid}\n")
            if self._minded:
                return
            ending = self._close_input()
        if ending is not None:
            # The caller does not wait.
            threading.Thread(target=ending.wait, daemon=True).start()

    def look(self) -> None:
        """Restart the guard process if it died."""
        with self._lock:
            if self._minded and not self._is_there():
                self._begin()

    def close(self) -> None:
        """Stop the guard process, which kills the remaining groups."""
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
        """Close its input, which ends it; return the process."""
        parted, self._process = self._process, None
        if parted is not None:
            os.close(self._told)
        return parted

    def _write(self, line: str) -> None:
        # A dead guard is replaced by one that receives all groups.
        if self._process is not None:
            with suppress(BrokenPipeError):
                os.write(self._told, line.encode())
