"""Files as values, which cross from the database to async code."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from core import ids

ID_PREFIX = "file-"


@dataclass(frozen=True, slots=True)
class NewFile:
    """An upload that was read whole."""

    filename: str
    purpose: str
    content_type: str
    size: int
    """In bytes."""
    sha256: str
    lifetime: timedelta | None
    """None: until it is deleted."""

    def expires_at(self, now: datetime) -> datetime | None:
        return None if self.lifetime is None else now + self.lifetime


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a user. The storage has its bytes, under the hex form of its key."""

    key: uuid.UUID
    filename: str
    purpose: str
    content_type: str
    size: int
    created_at: datetime
    expires_at: datetime | None

    @property
    def file_id(self) -> str:
        return format_file_id(self.key)


def format_file_id(key: uuid.UUID) -> str:
    """Return the id of a file for clients."""
    return f"{ID_PREFIX}{key.hex}"


def parse_file_id(text: str) -> uuid.UUID | None:
    """Return the key in the id of a file; None for a malformed one."""
    return ids.parse_uuid(text, prefix=ID_PREFIX)
