"""A log file that several processes append to, and that replaces itself when large."""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path


def append(path: Path, lines: bytes, *, max_bytes: int, keep_files: int) -> None:
    """Append whole lines; first rotate a file that would become too large.

    The file is opened each time, so that programs such as logrotate may move it away.
    Creates the file for its owner only; raises `OSError`.
    """
    while not _append_unless_full(path, lines, max_bytes, keep_files):
        pass  # It was rotated, and another process may have filled the new one.


def _append_unless_full(
    path: Path, lines: bytes, max_bytes: int, keep_files: int
) -> bool:
    """Append, or rotate a file that would become too large; return if appended."""
    descriptor = _open_locked(path)
    try:
        status = os.fstat(descriptor)
        # Pipes and devices have no size.
        is_full = status.st_size and status.st_size + len(lines) > max_bytes
        if is_full and stat.S_ISREG(status.st_mode):
            _rotate(path, keep_files)
            return False
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        return True
    finally:
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    """Return a descriptor of the file with this name, locked against rotation."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_file_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Another process has rotated it in the meantime.
        os.close(descriptor)


def _is_file_at(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False


def _rotate(path: Path, keep_files: int) -> None:
    """Rename `log` to `log.1`, `log.1` to `log.2` …; the oldest is deleted."""
    names = [path, *(Path(f"{path}.{number}") for number in range(1, keep_files + 1))]
    for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
        with suppress(FileNotFoundError):
            os.replace(newer, older)
    if not keep_files:
        path.unlink()
