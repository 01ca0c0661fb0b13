"""Convert the results of MCP tools for models."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

import mcp_types
import orjson

from core.text import redaction
from core.tools import ToolResult
from mcp_bridge.errors import ToolFailed

MAX_TEXT_LENGTH = 100_000
"""The characters per result; the tool loop cuts again, to the model's limit."""
MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""In base64 bytes, as providers count."""
IMAGE_TYPES = {"image/gif", "image/jpeg", "image/png", "image/webp"}

TRUNCATION_MARK = "\n[truncated]"

Part = dict[str, Any]


def convert_result(result: mcp_types.CallToolResult, server: str) -> ToolResult:
    """Return text, or parts if the result has images.

    Raises `ToolFailed` with the result's text if the tool reports a failure.
    """
    parts = [part for block in result.content for part in _convert_block(block)]
    if not parts and result.structured_content is not None:
        parts = [_text_part(_json(result.structured_content))]
    if result.is_error:
        message = _join_text(parts) or "the tool failed without a message"
        raise ToolFailed(redaction.redact_patterns(message), server=server)
    if any(part["type"] == "image_url" for part in parts):
        return list(_merge_texts(parts))
    return _join_text(parts)


def _convert_block(block: mcp_types.ContentBlock) -> Iterator[Part]:
    match block:
        case mcp_types.TextContent():
            yield _text_part(block.text)
        case mcp_types.ImageContent():
            yield _image_part(block.data, block.mime_type)
        case mcp_types.AudioContent():
            yield _placeholder_part(
                f"audio, {_format_type(block.mime_type)}, {_format_size(block.data)}"
            )
        case mcp_types.ResourceLink():
            details = ", ".join(filter(None, [block.title, block.description]))
            yield _text_part(
                f"{block.name}: {block.uri}" + (f" ({details})" if details else "")
            )
        case mcp_types.EmbeddedResource():
            yield _resource_part(block.resource)
        case _:
            assert_never(block)


def _resource_part(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> Part:
    if isinstance(resource, mcp_types.TextResourceContents):
        return _text_part(f"{resource.uri}:\n{resource.text}")
    mime_type = resource.mime_type or ""
    if mime_type in IMAGE_TYPES:
        return _image_part(resource.blob, mime_type)
    return _placeholder_part(
        f"{resource.uri}, {_format_type(mime_type)}, {_format_size(resource.blob)}"
    )


def _image_part(data: str, mime_type: str) -> Part:
    if mime_type not in IMAGE_TYPES:
        return _placeholder_part(
            f"image, {_format_type(mime_type)}, which models do not support"
        )
    if len(data) > MAX_IMAGE_BYTES:
        return _placeholder_part(
            f"image, {_format_type(mime_type)}, {_format_size(data)}, too large"
        )
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return _placeholder_part(f"image, {_format_type(mime_type)}, damaged")
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{mime_type};base64,{data}"},
    }


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text[: MAX_TEXT_LENGTH + 1]}


def _placeholder_part(text: str) -> Part:
    """Return a placeholder for content that models cannot use."""
    return _text_part(f"[not shown: {text}]")


def _format_type(mime_type: str) -> str:
    text = re.sub(r"[^\w./+-]", "", mime_type)[:80]
    return text or "unknown type"


def _format_size(data: str) -> str:
    return f"{len(data) * 3 // 4 / 1024:,.0f} kB"


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return str(value)


def _join_text(parts: Iterable[Part]) -> str:
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return _truncate(text, MAX_TEXT_LENGTH)


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + TRUNCATION_MARK


def _merge_texts(parts: Iterable[Part]) -> Iterator[Part]:
    """Join adjacent texts, and apply the limit to all of them together."""
    remaining = MAX_TEXT_LENGTH
    pending: list[Part] = []
    for part in [*parts, None]:
        if part is not None and part["type"] == "text":
            pending.append(part)
            continue
        if pending and remaining > 0:
            text = _join_text(pending)
            yield {"type": "text", "text": _truncate(text, remaining)}
            remaining -= len(text)
        pending = []
        if part is not None:
            yield part
