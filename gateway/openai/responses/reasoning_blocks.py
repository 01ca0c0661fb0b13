"""Reasoning blocks as the `encrypted_content` of reasoning items.

Only the model's provider reads the blocks: Anthropic signs or encrypts them. Clients
store the text and send it back, as OpenAI's own.
"""

import base64
from collections.abc import Sequence

import orjson

from core.messages import Reasoning


def encode(blocks: Sequence[Reasoning]) -> str:
    """Return blocks as opaque text."""
    values = [(b.text, b.signature, b.redacted, b.model) for b in blocks]
    return base64.b64encode(orjson.dumps(values)).decode()


def decode(text: str | None) -> tuple[Reasoning, ...]:
    """Return the blocks in a text; none if another server wrote it."""
    try:
        values = orjson.loads(base64.b64decode(text or "", validate=True))
        return tuple(Reasoning(*map(_require_text, block)) for block in values)
    except (TypeError, ValueError):
        return ()


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
