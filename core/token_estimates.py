"""Guessing how many tokens a text is, where no provider has counted it."""

from typing import Any

import orjson

from core.messages import Message

BYTES_PER_TOKEN = 4
MESSAGE_OVERHEAD = 4
"""Role and separators around every message, as OpenAI's chat format spends them."""
IMAGE_TOKENS = 800
"""What a medium-sized image costs on most models."""
FILE_BYTES_PER_TOKEN = 32
"""A PDF of base64 text, a page of which costs about 2,000 tokens."""


def estimate_text(text: str) -> int:
    """Return about how many tokens `text` is: a token is four UTF-8 bytes.

    Right within a fifth for English prose; Chinese and Japanese come out a little
    low, code a little high.
    """
    return _tokens_of_size(len(text.encode("utf-8", "replace")))


def estimate_json(value: Any) -> int:
    """Return about how many tokens a value takes as JSON, such as tool definitions.

    Nothing takes none. Nor does a value that cannot be written as JSON (it is nested
    too deeply, say): the provider's client refuses to send it and says why.
    """
    if not value:
        return 0
    try:
        return _tokens_of_size(len(orjson.dumps(value)))
    except orjson.JSONEncodeError:
        return 0


def _tokens_of_size(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def estimate_message(message: Message, *, with_reasoning: bool = True) -> int:
    """Return about how many tokens `message` takes in a prompt.

    Blocks of reasoning are sent back to their provider within a tool loop.
    """
    tokens = MESSAGE_OVERHEAD + estimate_text(message.text)
    if message.content is not None and not isinstance(message.content, str):
        tokens += sum(map(_estimate_part, message.content))
    for call in message.tool_calls:
        tokens += estimate_text(call.name) + estimate_text(call.arguments)
    if with_reasoning:
        for block in message.reasoning:
            tokens += estimate_text(block.text) + estimate_text(block.redacted)
    return tokens


def _estimate_part(part: dict[str, Any]) -> int:
    match part.get("type"):
        case "text":
            return 0
        case "file":
            size = len(part.get("file", {}).get("file_data") or "")
            return max(IMAGE_TOKENS, size // FILE_BYTES_PER_TOKEN)
    return IMAGE_TOKENS
