"""Guessing how many tokens a text is, where no provider has counted it."""

from typing import Any

from core.messages import Message

BYTES_PER_TOKEN = 4
MESSAGE_OVERHEAD = 4
"""Role and separators around every message, as OpenAI's chat format spends them."""
IMAGE_TOKENS = 800
"""What a medium-sized image costs on most models."""
FILE_BYTES_PER_TOKEN = 32
"""A PDF of base64 text, a page of which costs about 2,000 tokens."""


def estimate(text: str) -> int:
    """Return about how many tokens `text` is: a token is four UTF-8 bytes.

    Right within a fifth for English prose; Chinese and Japanese come out a little
    low, code a little high.
    """
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Return about how many tokens `message` takes in a prompt."""
    tokens = MESSAGE_OVERHEAD + estimate(message.text)
    if message.content is not None and not isinstance(message.content, str):
        tokens += sum(map(_estimate_part, message.content))
    for call in message.tool_calls:
        tokens += estimate(call.name) + estimate(call.arguments)
    return tokens


def _estimate_part(part: dict[str, Any]) -> int:
    match part.get("type"):
        case "text":
            return 0
        case "file":
            size = len(part.get("file", {}).get("file_data") or "")
            return max(IMAGE_TOKENS, size // FILE_BYTES_PER_TOKEN)
    return IMAGE_TOKENS
