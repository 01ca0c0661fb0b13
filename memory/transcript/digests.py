"""Digests of conversations as their clients see them.

A client that sends its whole conversation is recognised by them: the digest of a
message covers the user and all messages before it, in the client's own view.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from core.ids import UserId
from core.messages import Message

SIZE_BYTES = 16


def iterate_digests(user_id: UserId, messages: Iterable[Message]) -> Iterator[bytes]:
    """Yield the digest of each message of a conversation, given from its beginning."""
    digest = user_id.bytes
    for message in messages:
        digest = extend_digest(digest, message)
        yield digest


def extend_digest(before: bytes, message: Message) -> bytes:
    """Return the digest of a message that follows one with a given digest."""
    return _hash(before + _canonicalize(message))


def digest_exchange(user_id: UserId, question: str, reply: Message) -> bytes:
    """Return the digest of a reply and its question alone.

    It finds a conversation whose beginning the client has dropped or compacted.
    """
    return extend_digest(_exchange_prefix(user_id, question), reply)


def digest_reply(
    user_id: UserId, question: str, before: bytes, reply: Message
) -> tuple[bytes, bytes]:
    """Return the digest of a reply that follows one with a given digest, and that of
    its exchange."""
    canonical = _canonicalize(reply)
    return _hash(before + canonical), _hash(
        _exchange_prefix(user_id, question) + canonical
    )


def _exchange_prefix(user_id: UserId, question: str) -> bytes:
    return user_id.bytes + question.strip().encode("utf-8", "replace")


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=SIZE_BYTES).digest()


def digest_exchanges(user_id: UserId, messages: Sequence[Message]) -> list[bytes]:
    """Return the digest of the exchange of each assistant message; b"" of others."""
    question, found = "", []
    for message in messages:
        if message.role == "user":
            question = message.text
        is_reply = message.role == "assistant"
        found.append(digest_exchange(user_id, question, message) if is_reply else b"")
    return found


def find_last_question(messages: Sequence[Message]) -> str:
    """Return the text of the last user message, or ""."""
    texts = (message.text for message in reversed(messages) if message.role == "user")
    return next(texts, "")


def _canonicalize(message: Message) -> bytes:
    """Return what identifies a message when its client sends it again.

    Clients trim texts, parse and write arguments again, and number calls again.
    """
    content = message.content
    parts: list[Any] = [message.role, message.text.strip()]
    if content is not None and not isinstance(content, str):
        parts += [
            _identify_part(part) for part in content if part.get("type") != "text"
        ]
    if message.tool_calls:
        parts += [
            (call.name, _parse_arguments(call.arguments)) for call in message.tool_calls
        ]
    try:
        return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer beyond 64 bits
        return repr(parts).encode("utf-8", "replace")


def _identify_part(part: dict[str, Any]) -> Any:
    """Return what identifies a part: of a file by id, whose name may change, the id."""
    file = part.get("file") if part.get("type") == "file" else None
    return (isinstance(file, dict) and file.get("file_id")) or part


def _parse_arguments(arguments: str) -> Any:
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
