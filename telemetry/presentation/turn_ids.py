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

    It may be a UUID, or the id of the chat's reply.
    """
    found = ID_PATTERN.fullmatch(text)
    return TurnId(uuid.UUID(found[1])) if found else None
