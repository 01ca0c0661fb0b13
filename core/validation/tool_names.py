"""Tool names that every provider accepts."""

import hashlib
import re

MAX_LENGTH = 64
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
DIGEST_LENGTH = 8


def to_safe_name(name: str) -> str:
    """Return a name as letters, digits, `_` and `-`, at most 64 of them.

    A hash replaces the part that is cut, so two long names stay distinct.
    """
    plain = UNSAFE.sub("_", name) or "_"
    if len(plain) <= MAX_LENGTH:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{plain[: MAX_LENGTH - DIGEST_LENGTH - 1]}_{digest}"
