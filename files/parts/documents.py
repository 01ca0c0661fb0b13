"""The content behind a file part: a stored file, or data within the message."""

import base64
import io
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Self

from files.storage import content
from files.types import StoredFile
from files.uploads.content_types import TypeDetector
from files.uploads.form import clean_filename

DEFAULT_NAME = "file"


@dataclass(frozen=True, slots=True)
class Document:
    """A file that a model shall read."""

    filename: str
    content_type: str
    size: int
    """In bytes."""
    open: Callable[[], IO[bytes]]
    """Call it on a thread: a disk or S3 may take its time."""
    key: uuid.UUID | None = None
    """The key of a stored file."""

    @classmethod
    def stored(cls, file: StoredFile) -> Self:
        return cls(
            filename=file.filename,
            content_type=file.content_type,
            size=file.size,
            open=partial(content.open_content, file),
            key=file.key,
        )

    @classmethod
    def inline(cls, data: str, filename: str | None) -> Self:
        """Return the document in `file_data`, whose base64 was checked."""
        decoded = base64.b64decode(data[data.find(",") + 1 :])
        detector = TypeDetector()
        detector.feed(decoded)
        name = clean_filename(filename or DEFAULT_NAME)
        return cls(
            filename=name,
            content_type=detector.content_type(name),
            size=len(decoded),
            open=partial(io.BytesIO, decoded),
        )

    def read(self, max_bytes: int = -1) -> bytes:
        """Return the bytes, or the first of them."""
        with self.open() as opened:
            return content.read(opened, max_bytes)


def inline_data(part: dict[str, Any]) -> str | None:
    """Return the `file_data` of a part; None for an address, which providers fetch."""
    file = part.get("file") if part.get("type") == "file" else None
    data = file.get("file_data") if isinstance(file, dict) else None
    if not isinstance(data, str) or data[:6].lower().startswith(("http:", "https:")):
        return None
    return data
