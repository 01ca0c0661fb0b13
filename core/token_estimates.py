"""Estimate token counts where no provider has counted."""

from typing import Any

import orjson

from core.messages import Message

BYTES_PER_TOKEN = 4
MESSAGE_OVERHEAD = 4
"""Role and separators of each message in OpenAI's chat format."""
IMAGE_TOKENS = 800
"""The tokens of a medium-sized image on most models."""
FILE_BYTES_PER_TOKEN = 32
"""For base64-encoded PDFs, with about 2,000 tokens per page."""
MAX_FILE_TEXT_TOKENS = 50_000
"""The tokens of a file's text in a prompt, at most."""


def estimate_text(text: str) -> int:
    """Return an estimate of a text's tokens: one per four UTF-8 bytes.

    Within 20 % for English prose; slightly low for Chinese and Japanese, slightly high
    for code.
    """
    return _tokens_of_size(len(text.encode("utf-8", "replace")))


def estimate_json(value: Any) -> int:
    """Return an estimate of a value's tokens as JSON, such as tool definitions.

    Empty values have 0 tokens, and so do values that cannot be written as JSON (such as
    too deeply nested ones): the provider's client refuses them with the reason.
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
    """Return an estimate of a message's tokens in a prompt.

    Reasoning blocks are sent back to their provider within a tool loop.
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
            return _estimate_file(part.get("file") or {})
    return IMAGE_TOKENS


def _estimate_file(file: dict[str, Any]) -> int:
    """Estimate a file from its data, or from its size and type."""
    if data := file.get("file_data"):
        return max(IMAGE_TOKENS, len(data) // FILE_BYTES_PER_TOKEN)
    size: int = file.get("bytes", 0)
    kind = str(file.get("content_type", ""))
    if kind.startswith(("image/", "audio/")):
        return IMAGE_TOKENS
    if kind == "application/pdf":
        # Base64 is a third longer.
        return max(IMAGE_TOKENS, size * 4 // 3 // FILE_BYTES_PER_TOKEN)
    return min(_tokens_of_size(size), MAX_FILE_TEXT_TOKENS)
