"""Writes the file: whole or not at all, by one process at a time."""

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from config.errors import FileChanged, FileUnwritable
from config.loading import reader

LOCK_FILE = "coulisse.lock"
BACKUP_FILE = "coulisse.before.yaml"
"""In the state directory: the last content that was written over in place."""

WRITE_BITS = 0o222
MOUNTS = Path("/proc/self/mountinfo")


@contextlib.contextmanager
def lock_writes() -> Iterator[None]:
    """Keep other processes of this server from writing the file meanwhile.

    Raises `FileUnwritable` where the state directory takes no lock.
    """
    directory = Path(settings.COULISSE_STATE_DIR)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as exc:
        raise FileUnwritable(
            f"nothing is written while {directory / LOCK_FILE} cannot be ({exc.strerror}); "
            f"let the server write {directory}"
        ) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, *, before: bytes | None = None) -> None:
    """Give the file another content; raises `FileUnwritable`, and nothing has changed.

    `before` is what it should hold until then: editors take no lock, so that is looked
    at again when all else is done, and `FileChanged` is raised if it holds another.
    Its mode and owner stay, and a link to it stays one. A file that cannot be replaced,
    because it is mounted by itself or nobody may give it its owner, is written over,
    and a copy of what it held is kept in the state directory meanwhile.
    """
    target = path.resolve()
    shown = reader.display_path(path)
    try:
        if not target.stat().st_mode & WRITE_BITS or not os.access(target, os.W_OK):
            raise FileUnwritable(
                f"{shown} is read-only; make it writable, or change it where it "
                "comes from"
            )
        try:
            _replace(target, content, before)
        except OSError as exc:
            if not _needs_in_place_write(target, exc):
                raise
            _write_in_place(target, content, before)
    except OSError as exc:
        raise FileUnwritable(
            f"{shown} cannot be written ({exc.strerror}); let the server write "
            f"{target.parent}, or change the file where it comes from"
        ) from exc


def create_file(path: Path, content: bytes) -> None:
    """Write a file that is not there; raises `FileUnwritable`, and there is none.

    Raises `FileChanged` where there is one by now. Only its owner may read it, for it
    may hold secrets.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            _write_all(descriptor, content)
            if os.path.lexists(path):
                raise FileChanged
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as exc:
        raise FileUnwritable(
            f"{reader.display_path(path)} cannot be written ({exc.strerror}); let the server "
            f"write {path.parent}"
        ) from exc
    _sync_directory(path.parent)


def _replace(target: Path, content: bytes, before: bytes | None) -> None:
    held = target.stat()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if (held.st_uid, held.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), held.st_uid, held.st_gid)
            os.fchmod(file.fileno(), held.st_mode & 0o7777)
            os.fsync(file.fileno())
        _check_unchanged(target, before)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
    _sync_directory(target.parent)


def _check_unchanged(target: Path, before: bytes | None) -> None:
    if before is not None and reader.read_file(target) != before:
        raise FileChanged


def _sync_directory(directory: Path) -> None:
    """Have the directory on the disk, too, where its file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _needs_in_place_write(target: Path, exc: OSError) -> bool:
    """Tell whether the file itself has to stay where it is."""
    if exc.errno == errno.EBUSY or _is_mounted(target):
        return True
    # Its owner could not be kept; that its directory is closed is a reason of its own.
    return exc.errno == errno.EPERM and os.access(target.parent, os.W_OK)


def _is_mounted(target: Path) -> bool:
    """Tell whether a file is mounted by itself, as containers do it."""
    try:
        rows = MOUNTS.read_text().splitlines()
    except OSError:
        return False
    places = (row.split(" ")[4].encode().decode("unicode_escape") for row in rows)
    return str(target) in places


def _write_in_place(target: Path, content: bytes, before: bytes | None) -> None:
    """Write into the file as it is; put back what it held when that fails."""
    held = target.read_bytes()
    copy = Path(settings.COULISSE_STATE_DIR) / BACKUP_FILE
    descriptor = os.open(copy, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    _write_all(descriptor, held)
    _check_unchanged(target, before)
    try:
        _write_all(os.open(target, os.O_WRONLY | os.O_TRUNC), content)
    except OSError:
        with contextlib.suppress(OSError):
            _write_all(os.open(target, os.O_WRONLY | os.O_TRUNC), held)
        raise


def _write_all(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
