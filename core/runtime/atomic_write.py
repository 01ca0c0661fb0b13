"""Write a file so that readers see all of it or what was there before."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_file(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    check: Callable[[], None] = lambda: None,
    is_new: bool = False,
) -> None:
    """Write a file beside the path, then rename it; raises `OSError`.

    `owner` is a user id and a group id. `check` runs right before the rename; if it
    raises, the file stays as it was. With `is_new`, raises `FileExistsError` if the
    path exists.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if owner not in (None, (os.geteuid(), os.getegid())):
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        check()
        if is_new:
            # Unlike a rename, a link never replaces the file of another process.
            os.link(name, path)
            os.unlink(name)
        else:
            os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Flush the directory to the disk where its file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
