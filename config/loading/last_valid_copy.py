"""A copy of the last valid file, for processes that start while the file is invalid.

The copy is in the state directory, with placeholders unexpanded.
"""

import contextlib
from pathlib import Path

from django.conf import settings

from core.runtime import atomic_write

FILE_NAME = "coulisse.valid.yaml"


def write_copy(content: bytes) -> None:
    """Store a valid content; a failed write is not an error."""
    directory = Path(settings.COULISSE_STATE_DIR)
    with contextlib.suppress(OSError):
        atomic_write.write_file(directory / FILE_NAME, content)


def read_copy() -> bytes | None:
    """Return the last stored content, or None."""
    with contextlib.suppress(OSError):
        return (Path(settings.COULISSE_STATE_DIR) / FILE_NAME).read_bytes()
    return None
