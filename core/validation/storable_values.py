"""Check that texts and numbers can be stored and written as JSON."""

import math
import re

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""PostgreSQL rejects NUL, and UTF-8 has no lone surrogates."""
MAX_INTEGER = 2**63 - 1
"""The limit of integers: columns have 64 bits."""


def describe_problem(value: object) -> str | None:
    """Return why a text or a number cannot be stored, or None.

    The result continues a sentence: "The body has a NUL character, …".
    """
    match value:
        case str():
            return _describe_text_problem(value)
        case int() if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            return "has an integer beyond 64 bits"
        case float() if not math.isfinite(value):
            return "has a number that is not finite"
    return None


def _describe_text_problem(text: str) -> str | None:
    match = UNSTORABLE.search(text)
    if match is None:
        return None
    if match[0] == "\0":
        return "has a NUL character, which cannot be stored"
    return "has a lone surrogate, such as \\ud800, which cannot be stored"
