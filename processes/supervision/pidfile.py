"""A pid file, locked as long as the project's server runs.

Only the lock counts, not the number in the file: the kernel releases it when the
process ends for any reason, so stale files are detected, and a reused pid misleads no
command.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processes.errors import AlreadyRunning

LOCK_TIMEOUT_SECONDS = 0.5
"""Time to wait for a lock that another command tests, or for the owner's pid."""


class PidFile:
    """The owner's side of the pid file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Lock the file and write our pid into it.

        Raises `AlreadyRunning` if another process holds the lock.
        """
        descriptor = _lock_with_retries(self.path)
        if descriptor is None:
            raise AlreadyRunning(holder_pid(self.path) or 0)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Remove the file, then release the lock."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def holder_pid(path: Path) -> int | None:
    """Return the pid of the process that holds the lock, or None."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while _is_locked(path):
        pid = _read(path)
        # The owner locks first and writes a moment later.
        if pid is not None or time.monotonic() > deadline:
            return pid
        time.sleep(0.02)
    return None


@contextmanager
def lock_out_servers(path: Path) -> Iterator[bool]:
    """Prevent servers from starting while the file is unlocked; then remove it.

    Yields False, without effect, if a process holds the lock.
    """
    descriptor = _lock_with_retries(path)
    if descriptor is None:
        yield False
        return
    try:
        # Otherwise other commands would read the pid of an ended server.
        os.ftruncate(descriptor, 0)
        yield True
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock_with_retries(path: Path) -> int | None:
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while (descriptor := _lock(path)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return descriptor


def _lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous owner may have removed the file between our open and our lock;
        # then we have locked a file without a name.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
