"""The process that kills the children of this process if it is killed."""

import os
import subprocess
import sys
import threading
from contextlib import suppress

from mcp_bridge.client import orphan_guard

EXIT_SECONDS = 1.0


class ProcessGuard:
    """Watches process groups and runs while it has any; thread-safe.

    The kernel kills only direct children together with this process; the guard also
    ends their children, as `npx` starts them.
    """

    def __init__(self) -> None:
        self._watched: set[int] = set()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._write_end = -1
        """The write end of its input pipe."""

    def watch(self, pid: int) -> None:
        """Register the group led by this process, to kill it if we die."""
        with self._lock:
            self._watched.add(pid)
            if self._is_running():
                self._write(f"+{pid}\n")
            else:
                self._start()

    def forget(self, pid: int) -> None:
        """Deregister a group that is gone."""
        with self._lock:
            self._watched.discard(pid)
            self._write(f"-{pid}\n")
            if self._watched:
                return
            process = self._close_input()
        if process is not None:
            # The caller does not wait.
            threading.Thread(target=process.wait, daemon=True).start()

    def ensure_running(self) -> None:
        """Restart the guard process if it died."""
        with self._lock:
            if self._watched and not self._is_running():
                self._start()

    def close(self) -> None:
        """Stop the guard process, which kills the remaining groups."""
        with self._lock:
            self._watched.clear()
            process = self._close_input()
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=EXIT_SECONDS)

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> None:
        self._close_input()
        read_end, self._write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", orphan_guard.__file__],
                stdin=read_end,
                start_new_session=True,
            )
        finally:
            os.close(read_end)
        for pid in self._watched:
            self._write(f"+{pid}\n")

    def _close_input(self) -> "subprocess.Popen[bytes] | None":
        """Close its input, which ends it; return the process."""
        process, self._process = self._process, None
        if process is not None:
            os.close(self._write_end)
        return process

    def _write(self, line: str) -> None:
        # A dead guard is replaced by one that receives all groups.
        if self._process is not None:
            with suppress(BrokenPipeError):
                os.write(self._write_end, line.encode())
