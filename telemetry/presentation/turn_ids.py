"""Parses turn ids in all accepted forms."""

import re
import uuid

from core.ids import TurnId

ID_PATTERN = re.compile(
    r"(?:chatcmpl-)?([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    re.IGNORECASE | re.ASCII,
)


def parse_turn_id(text: str) -> TurnId | None:
    """Return the id in a text, or None.

    The text may be a UUID or the id of a chat completion.
    """
    match = ID_PATTERN.fullmatch(text)
    return TurnId(uuid.UUID(match[1])) if match else None
