"""Parse token counts, which providers send in various formats."""

import math
from typing import Any

from core.events import Usage

MAX_COUNT = 2**31 - 1
"""The limit of a database integer, above any real call."""


def parse_count(value: Any) -> int | None:
    """Return a valid count, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A JSON number past 64 bits is a float, and may be infinite.
    if not math.isfinite(value) or not 0 <= value <= MAX_COUNT:
        return None
    return int(value)


def build_usage(
    input_tokens: int | None,
    output_tokens: int | None,
    *,
    cache_read: int = 0,
    cache_write: int = 0,
    reasoning: int = 0,
) -> Usage | None:
    """Return a usage whose parts do not exceed the whole.

    None if neither side was counted.
    """
    if input_tokens is None and output_tokens is None:
        return None
    prompt = min(input_tokens or 0, MAX_COUNT)
    reply = min(output_tokens or 0, MAX_COUNT)
    read = min(cache_read, prompt)
    return Usage(
        input_tokens=prompt,
        output_tokens=reply,
        cache_read_tokens=read,
        cache_write_tokens=min(cache_write, prompt - read),
        reasoning_tokens=min(reasoning, reply),
    )
