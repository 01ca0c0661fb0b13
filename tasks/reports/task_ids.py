"""Parses task ids in all accepted forms."""

import re
import uuid

ID_PATTERN = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)


def parse_task_id(text: str) -> uuid.UUID | None:
    """Return the id in a text, or None."""
    return uuid.UUID(text) if ID_PATTERN.fullmatch(text) else None
