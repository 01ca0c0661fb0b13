"""The files that are imported."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from imports.errors import SourceUnreadable


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file; raises `SourceUnreadable`."""
    try:
        if not path.is_file():
            raise SourceUnreadable(f"{path} is not a file; give the path of the export")
        with path.open("rb") as file:
            yield file
    except OSError as exc:
        raise SourceUnreadable(f"cannot read {path} ({exc.strerror})") from exc


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a small file; raises `SourceUnreadable`."""
    with open_file(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise SourceUnreadable(f"{path.name} is larger than {max_bytes:,} bytes")
    return content
