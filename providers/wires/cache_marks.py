"""Marks of what to cache (`cache_control`) in requests to Anthropic.

https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
"""

from collections.abc import Iterator
from typing import Any

MAX_MARKS = 4
"""The API refuses more."""


def limit(body: dict[str, Any]) -> None:
    """Change the marks of a request so that the API accepts them.

    The first one, of what all requests have in common, and the newest ones stay. A mark
    that lasts longer must not follow a shorter one, so all last as long as the longest.
    """
    marked = list(_marked_blocks(body))
    for block in marked[1 : max(1, len(marked) - MAX_MARKS + 1)]:
        del block["cache_control"]
    if any(block.get("cache_control", {}).get("ttl") == "1h" for block in marked):
        for block in marked:
            if "cache_control" in block:
                block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


def _marked_blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the marked tools and blocks in the order of the prompt."""
    system = body.get("system")
    blocks = [*body.get("tools", ()), *(system if isinstance(system, list) else ())]
    for message in body["messages"]:
        blocks += message["content"]
    return (block for block in blocks if "cache_control" in block)
