"""The process that kills the children of this process if it is killed."""

import os
import subprocess
import sys
import threading
from contextlib import suppress

from core.child_processes import orphan_guard

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
            if self._process is None:
                self._start()
            else:
                self._write(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Deregister a group that is gone."""
        with self._lock:
            self._watched.discard(pid)
            self._write(f"-{pid}\n")
            if not self._watched:
                self._close_input()

    def close(self) -> None:
        """Stop the guard process, which kills the remaining groups."""
        with self._lock:
            self._watched.clear()
            process = self._process
            self._close_input()
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=EXIT_SECONDS)

    def _start(self) -> None:
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
        threading.Thread(
            target=self._replace_dead, args=(self._process,), daemon=True
        ).start()

    def _replace_dead(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for the guard process's end, and replace it unless it was closed."""
        process.wait()
        with self._lock:
            if process is self._process:
                self._close_input()
                self._start()

    def _close_input(self) -> None:
        """Close its input, which ends it."""
        if self._process is not None:
            os.close(self._write_end)
            self._process = None

    def _write(self, line: str) -> None:
        # A dead guard is replaced by one that receives all groups.
        if self._process is not None:
            with suppress(BrokenPipeError):
                os.write(self._write_end, line.encode())
