"""The directory of the metrics of one machine, and this process's files in it.

Each process has a name such as `web-0`, which it holds by a lock on a file. The system
releases the lock when the process ends, however it ends; the next process of the role
takes the name and continues the counters. So the number of files is bounded, sums never
decrease while the server runs, and containers that share the directory cannot confuse
their process ids.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from django.conf import settings

Role = Literal["web", "worker", "beat"]
ROLES = get_args(Role)

LOCK_SUFFIX = ".lock"
GAUGE = "gauge"
"""The prefix of files with values that end with their process."""
FILE_BYTES = 2 * 1024 * 1024
"""Allocated for each kind of file. A memory map that grows on a full disk would kill
the process with SIGBUS, so it never grows; the number of series is limited."""


def metrics_directory() -> Path:
    """Return the directory of this machine's metrics, in the state directory."""
    return Path(settings.COULISSE_STATE_DIR) / "metrics"


class ProcessFiles:
    """The files of one process, until it ends."""

    def __init__(self, directory: Path, role: Role) -> None:
        """Take a name, and remove what ended processes left.

        The first process of a server removes all; later ones remove gauges, and keep
        counters, whose sums would otherwise decrease. Raises OSError.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory
        with _locked(directory):
            alive = _find_alive(directory)
            _remove_ended(directory, alive)
            number = 0
            while f"{role}-{number}" in alive:
                number += 1
            self.name = f"{role}-{number}"
            self._lock = os.open(
                directory / f"{self.name}{LOCK_SUFFIX}", os.O_RDWR | os.O_CREAT, 0o600
            )
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def allocate(self, kind: str) -> Path:
        """Return the file for `counter`, `gauge_max` …, with its space on the disk."""
        path = self.directory / f"{kind}_{self.name}.db"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < FILE_BYTES:
                _reserve(descriptor)
        finally:
            os.close(descriptor)
        return path

    def exemplars(self) -> Path:
        return self.directory / f"exemplars_{self.name}.json"

    def close(self) -> None:
        """Release the name."""
        os.close(self._lock)


def _reserve(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, FILE_BYTES)
    else:  # macOS
        os.truncate(descriptor, FILE_BYTES)


def find_processes(directory: Path) -> list[str]:
    """Return the names of the living processes; remove the gauges of the others."""
    with _locked(directory):
        alive = _find_alive(directory)
        if alive:
            _remove_ended(directory, alive)
    return sorted(alive)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory / "directory", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _find_alive(directory: Path) -> set[str]:
    return {path.stem for path in directory.glob(f"*{LOCK_SUFFIX}") if _is_held(path)}


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _remove_ended(directory: Path, alive: set[str]) -> None:
    for path in directory.iterdir():
        owner = path.stem.rpartition("_")[2]
        is_gauge = path.name.startswith(GAUGE)
        if owner not in alive and (is_gauge or not alive) and owner != "directory":
            path.unlink(missing_ok=True)
