"""Atomic writes of the YAML file, by one process at a time."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from config.errors import FileChanged, FileUnwritable
from config.loading import reader
from core.runtime import atomic_write

LOCK_FILE = "coulisse.lock"
BACKUP_FILE = "coulisse.before.yaml"
"""In the state directory: the previous content of a file that was overwritten in place.
"""

WRITE_BITS = 0o222
MOUNTS = Path("/proc/self/mountinfo")


@contextlib.contextmanager
def lock_writes() -> Iterator[None]:
    """Lock the file against writes by other processes of this server.

    Raises `FileUnwritable` if the state directory cannot be locked.
    """
    directory = Path(settings.COULISSE_STATE_DIR)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as exc:
        raise FileUnwritable(
            f"cannot lock {directory / LOCK_FILE} ({exc.strerror}); make {directory} "
            "writable for the server"
        ) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, *, before: bytes | None = None) -> None:
    """Replace the file's content; raises `FileUnwritable` and then changes nothing.

    `before` is the expected current content. Text editors take no lock, so the function
    compares the content just before the write and raises `FileChanged` if it differs.
    The file keeps its mode and owner, and a symbolic link stays a link. A file that
    cannot be replaced, because it is a mount of its own or the process may not set its
    owner, is overwritten in place; meanwhile the state directory holds a copy of the
    previous content.
    """
    target = path.resolve()
    name = reader.display_path(path)
    try:
        if not target.stat().st_mode & WRITE_BITS or not os.access(target, os.W_OK):
            raise FileUnwritable(
                f"{name} is read-only; make it writable, or edit the source that it "
                "is deployed from"
            )
        try:
            _replace(target, content, before)
        except OSError as exc:
            if not _needs_in_place_write(target, exc):
                raise
            _write_in_place(target, content, before)
    except OSError as exc:
        raise FileUnwritable(
            f"cannot write {name} ({exc.strerror}); make {target.parent} writable for "
            "the server, or edit the source that the file is deployed from"
        ) from exc


def create_file(path: Path, content: bytes) -> None:
    """Create the file; raises `FileUnwritable` and then creates nothing.

    Raises `FileChanged` if the file exists by now. Only its owner may read it, because
    it may hold secrets.
    """
    try:
        atomic_write.write_file(path, content, is_new=True)
    except FileExistsError:
        raise FileChanged from None
    except OSError as exc:
        raise FileUnwritable(
            f"cannot write {reader.display_path(path)} ({exc.strerror}); make "
            f"{path.parent} writable for the server"
        ) from exc


def _replace(target: Path, content: bytes, before: bytes | None) -> None:
    old = target.stat()
    atomic_write.write_file(
        target,
        content,
        mode=old.st_mode & 0o7777,
        owner=(old.st_uid, old.st_gid),
        check=lambda: _check_unchanged(target, before),
    )


def _check_unchanged(target: Path, before: bytes | None) -> None:
    if before is not None and reader.read_file(target) != before:
        raise FileChanged


def _needs_in_place_write(target: Path, exc: OSError) -> bool:
    if exc.errno == errno.EBUSY or _is_mounted(target):
        return True
    # EPERM here means that the owner could not be preserved; a closed directory is a
    # different error.
    return exc.errno == errno.EPERM and os.access(target.parent, os.W_OK)


def _is_mounted(target: Path) -> bool:
    """Return whether the file is a mount point, as in containers."""
    try:
        rows = MOUNTS.read_text().splitlines()
    except OSError:
        return False
    mount_points = (row.split(" ")[4].encode().decode("unicode_escape") for row in rows)
    return str(target) in mount_points


def _write_in_place(target: Path, content: bytes, before: bytes | None) -> None:
    """Overwrite the file; restore its content if that fails."""
    old = target.read_bytes()
    copy = Path(settings.COULISSE_STATE_DIR) / BACKUP_FILE
    descriptor = os.open(copy, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    _write_all(descriptor, old)
    _check_unchanged(target, before)
    try:
        _write_all(os.open(target, os.O_WRONLY | os.O_TRUNC), content)
    except OSError:
        with contextlib.suppress(OSError):
            _write_all(os.open(target, os.O_WRONLY | os.O_TRUNC), old)
        raise


def _write_all(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
