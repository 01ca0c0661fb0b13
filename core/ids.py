"""Ids: distinct types, so that type checks catch mix-ups, and readers of their text."""

import hashlib
import os
import re
import time
import uuid
from typing import NewType

UserId = NewType("UserId", uuid.UUID)
TurnId = NewType("TurnId", uuid.UUID)

COMPLETION_PREFIX = "chatcmpl-"
"""Precedes a turn's id in the id of its chat completion."""
RESPONSE_PREFIX = "resp_"
"""Precedes a turn's id in the id of its response."""
MESSAGE_PREFIX = "msg_"
"""Precedes a turn's id in the id of its message, in Anthropic's format."""
UNSTORED_PREFIX = "resp_unstored_"
"""The same for a response that cannot be retrieved."""
PREFIXES = (COMPLETION_PREFIX, MESSAGE_PREFIX, UNSTORED_PREFIX, RESPONSE_PREFIX)
# Python's own parser accepts hyphens and underscores anywhere.
UUID_PATTERN = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I | re.A
)
UUID_DIGITS = 32
HEX_DIGITS = frozenset("0123456789abcdef")


def parse_uuid(text: str, *, prefix: str = "") -> uuid.UUID | None:
    """Return the UUID in a text, with or without hyphens and the prefix, or None."""
    digits = text.lower().removeprefix(prefix)
    return uuid.UUID(digits) if UUID_PATTERN.fullmatch(digits) else None


def parse_turn_id(text: str) -> TurnId | None:
    """Return the id in a text, or None.

    It may be the id of a chat completion, of a message or of a response.
    """
    for prefix in PREFIXES:
        if (found := parse_uuid(text, prefix=prefix)) is not None:
            return TurnId(found)
    return None


def format_completion_id(turn_id: uuid.UUID) -> str:
    """Return the id of the chat completion that a turn answered."""
    return f"{COMPLETION_PREFIX}{turn_id.hex}"


def format_message_id(turn_id: uuid.UUID) -> str:
    """Return the id of the message that a turn answered."""
    return f"{MESSAGE_PREFIX}{turn_id.hex}"


def format_response_id(turn_id: uuid.UUID, *, is_stored: bool = True) -> str:
    """Return the id of the response that a turn gave."""
    return f"{RESPONSE_PREFIX if is_stored else UNSTORED_PREFIX}{turn_id.hex}"


def uuid_range(
    prefix: str, *, min_digits: int = 1
) -> tuple[uuid.UUID, uuid.UUID] | None:
    """Return the first and the last UUID that begin with these digits.

    None for a text that is not a beginning, or has fewer than `min_digits`.
    """
    digits = prefix.strip().lower().replace("-", "")
    if not min_digits <= len(digits) <= UUID_DIGITS or not HEX_DIGITS.issuperset(
        digits
    ):
        return None
    first, last = (uuid.UUID(digits.ljust(UUID_DIGITS, end)) for end in "0f")
    return first, last


def new_turn_id() -> TurnId:
    """Return an id for one turn; its hex form is part of the completion id."""
    return TurnId(new_id())


def derive_turn_id(user_id: UserId, thread: str, key: str, number: int = 0) -> TurnId:
    """Return the id of the nth turn of an import with a key."""
    return TurnId(uuid.uuid5(user_id, f"{thread}\0{key}\0{number}"))


def new_id() -> uuid.UUID:
    """Return a UUID of version 7 (RFC 9562), which begins with the time.

    Tables with this key grow at their end, which costs a database the fewest page
    writes.
    """
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | int.from_bytes(os.urandom(10))
    number = number & ~(0xF << 76) | 7 << 76  # the version
    number = number & ~(0x3 << 62) | 2 << 62  # the variant
    return uuid.UUID(int=number)


def pseudonym(user_id: uuid.UUID) -> str:
    """Return a stable pseudonym of a user for logs, instead of the id."""
    return hashlib.sha256(user_id.bytes).hexdigest()[:12]
