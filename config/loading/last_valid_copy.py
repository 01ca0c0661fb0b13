"""A copy of the last valid file, for a process that starts while the file is broken.

It holds what the file holds, placeholders unexpanded, in the state directory.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from django.conf import settings

FILE_NAME = "coulisse.valid.yaml"


def write_copy(content: bytes) -> None:
    """Keep a valid content; a disk that takes no copy stops nobody."""
    directory = Path(settings.COULISSE_STATE_DIR)
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=f".{FILE_NAME}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(name, directory / FILE_NAME)
        except OSError:
            os.unlink(name)
            raise


def read_copy() -> bytes | None:
    """Return the content last kept, if any."""
    with contextlib.suppress(OSError):
        return (Path(settings.COULISSE_STATE_DIR) / FILE_NAME).read_bytes()
    return None
