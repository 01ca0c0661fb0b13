"""Converts the messages of a request, whose blocks become messages of their own."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import orjson

from core.errors import Invalid
from core.messages import Content, Message, Reasoning, ToolCall
from gateway.anthropic.message_object import SHOWN_SIGNATURE
from gateway.anthropic.schemas import (
    CacheableBlock,
    DocumentBlock,
    ImageBlock,
    InputMessage,
    RedactedThinkingBlock,
    SearchResultBlock,
    ShownBlock,
    Source,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from gateway.openai.responses import reasoning_blocks

SEPARATOR = "\n\n"
ERROR_PREFIX = "Error: "
"""Precedes failed results: other providers have no field for it."""


def to_messages(
    system: str | Sequence[TextBlock] | None, messages: Sequence[InputMessage]
) -> list[Message]:
    """Return the messages of a request; raises `Invalid` for misplaced blocks."""
    converted = list(_system(system or ()))
    for position, message in enumerate(messages):
        converted += _convert(message, f"messages[{position}].content")
    return converted


def _system(system: str | Sequence[TextBlock]) -> Iterator[Message]:
    """Yield each block as a message, so that marks for caching stay in place."""
    if isinstance(system, str):
        yield Message("system", system)
        return
    for block in system:
        yield Message("system", block.text, cache_control=_mark([block]))


def _convert(message: InputMessage, param: str) -> Iterable[Message]:
    if isinstance(message.content, str):
        return [Message(message.role, message.content)]
    match message.role:
        case "assistant":
            return [_read_reply(message.content, param)]
        case "system":
            _check(message.content, (TextBlock,), "system", param)
            return _system([b for b in message.content if isinstance(b, TextBlock)])
        case "user":
            return _read_user(message.content, param)


def _check(
    blocks: Sequence[Any], allowed: tuple[type, ...], role: str, param: str
) -> None:
    for position, block in enumerate(blocks):
        if not isinstance(block, allowed):
            raise Invalid(
                f"{param}[{position}]: blocks of type '{block.type}' are not allowed "
                f"in messages of the role '{role}'",
                param=f"{param}[{position}].type",
            )


def _read_user(blocks: Sequence[Any], param: str) -> Iterator[Message]:
    """Yield the results of tools, then what the user says."""
    _check(blocks, (*get_args(ShownBlock), ToolResultBlock), "user", param)
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield Message(
                "tool",
                _read_result(block),
                tool_call_id=block.tool_use_id,
                cache_control=_mark([block]),
            )
    shown = [block for block in blocks if isinstance(block, ShownBlock)]
    if shown or not blocks:
        yield Message("user", _read_content(shown), cache_control=_mark(shown))


def _read_result(block: ToolResultBlock) -> Content:
    given = block.content or ""
    content = given if isinstance(given, str) else _read_content(given)
    if not block.is_error:
        return content
    if not isinstance(content, str):
        return [_text_part(ERROR_PREFIX.strip()), *(content or ())]
    is_marked = content.lower().lstrip("<").startswith(("error", "tool_use_error"))
    return content if is_marked else ERROR_PREFIX + content


def _read_reply(blocks: Sequence[Any], param: str) -> Message:
    allowed = (TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock)
    _check(blocks, allowed, "assistant", param)
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = tuple(_read_call(each) for each in blocks if isinstance(each, ToolUseBlock))
    thinking = (ThinkingBlock, RedactedThinkingBlock)
    return Message(
        "assistant",
        None if calls and not text else text,
        tool_calls=calls,
        reasoning=tuple(
            reasoning
            for block in blocks
            if isinstance(block, thinking)
            for reasoning in _read_thinking(block)
        )
        if calls
        else (),
        cache_control=_mark(
            [each for each in blocks if isinstance(each, CacheableBlock)]
        ),
    )


def _read_call(block: ToolUseBlock) -> ToolCall:
    arguments = {} if block.input is None else block.input
    return ToolCall(block.id, block.name, orjson.dumps(arguments).decode())


def _read_thinking(
    block: ThinkingBlock | RedactedThinkingBlock,
) -> tuple[Reasoning, ...]:
    """Return the reasoning in a block, which Anthropic's own API may have written."""
    if isinstance(block, RedactedThinkingBlock):
        own = reasoning_blocks.decode(block.data)
        return own or (Reasoning("", redacted=block.data),)
    if block.signature in ("", SHOWN_SIGNATURE):
        return ()
    return (Reasoning(block.thinking, block.signature),)


def _mark(blocks: Sequence[CacheableBlock]) -> Any:
    marks = [block.cache_control for block in blocks if block.cache_control]
    return marks[-1] if marks else None


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _read_content(blocks: Sequence[ShownBlock]) -> Content:
    """Return blocks as OpenAI's parts; text alone as one text."""
    parts = [part for block in blocks for part in _parts(block)]
    if all(part["type"] == "text" for part in parts):
        return SEPARATOR.join(part["text"] for part in parts)
    return parts


def _parts(block: ShownBlock) -> Iterator[dict[str, Any]]:
    match block:
        case TextBlock():
            yield _text_part(block.text)
        case ImageBlock(source=source) if source.type == "file":
            yield _file_part(source)
        case ImageBlock():
            yield {"type": "image_url", "image_url": {"url": block.source.address}}
        case SearchResultBlock():
            texts = [block.title, block.source, *(each.text for each in block.content)]
            yield _text_part(SEPARATOR.join(texts))
        case DocumentBlock():
            yield from _document_parts(block)


def _file_part(source: Source) -> dict[str, Any]:
    return {"type": "file", "file": {"file_id": source.file_id}}


def _document_parts(block: DocumentBlock) -> Iterator[dict[str, Any]]:
    source = block.source
    notes = [block.context] if block.context else []
    if source.type in ("base64", "url"):
        yield from map(_text_part, notes)
        name = block.title or "document.pdf"
        yield {"type": "file", "file": {"file_data": source.address, "filename": name}}
        return
    if block.title:
        notes.insert(0, block.title)
    yield from map(_text_part, notes)
    if source.type == "file":
        yield _file_part(source)
    elif source.type == "text":
        yield _text_part(source.data)
    elif isinstance(source.content, str):
        yield _text_part(source.content)
    else:
        for each in source.content or ():
            yield from _parts(each)
