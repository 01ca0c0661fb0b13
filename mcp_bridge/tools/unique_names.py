"""Unique tool names for models."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from core.validation import tool_names

DIGEST_LENGTH = 8


def assign_names(tools: Sequence[tuple[str, str]]) -> list[str]:
    """Return a name for each tool of a server, given as (server, name).

    The tool's own name, adapted to providers' rules. Two equal names both get their
    server's name as a prefix; if that does not suffice, a hash as a suffix. A name
    depends only on the offered tools, so it is stable from turn to turn.
    """
    short = [tool_names.to_safe_name(name) for _, name in tools]
    counts = Counter(short)
    prefixed = [
        name if counts[name] == 1 else tool_names.to_safe_name(f"{server}_{original}")
        for name, (server, original) in zip(short, tools, strict=True)
    ]
    counts = Counter(prefixed)
    return [
        name if counts[name] == 1 else _with_hash(name, *tool)
        for name, tool in zip(prefixed, tools, strict=True)
    ]


def _with_hash(name: str, server: str, original: str) -> str:
    digest = hashlib.sha256(f"{server}\0{original}".encode()).hexdigest()
    prefix_length = tool_names.MAX_LENGTH - DIGEST_LENGTH - 1
    return f"{name[:prefix_length]}_{digest[:DIGEST_LENGTH]}"
