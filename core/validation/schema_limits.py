"""Limits on JSON Schemas that clients and tool servers send.

The limits are checked before any code compiles, checks or stores a schema, without
recursion and in a time bounded by the size limit.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from core.text.sanitization import escape_and_truncate

MAX_BYTES = 100_000
"""The size of the schema as JSON without white space."""
MAX_DEPTH = 64
"""Levels of objects and lists; a property of an object takes two."""
MAX_VALUES = 20_000
MAX_PATTERNS = 100
MAX_PATTERN_LENGTH = 1_000
MAX_PATTERNS_LENGTH = 10_000
"""Characters of all patterns together."""


class SchemaTooLarge(ValueError):
    """A schema exceeds a limit; the message names the limit and the remedy."""


def check_schema(schema: Any) -> bytes:
    """Return a schema as JSON; raises `SchemaTooLarge`."""
    try:
        encoded = orjson.dumps(schema)
    except orjson.JSONEncodeError as exc:
        if "ecursion" in str(exc):
            raise _depth_error() from exc
        # A number beyond 64 bits, or a lone surrogate.
        raise SchemaTooLarge("cannot be written as JSON") from exc
    if len(encoded) > MAX_BYTES:
        raise SchemaTooLarge(
            f"has {len(encoded):,} bytes, more than {MAX_BYTES:,}: shorten its "
            "descriptions, or split it"
        )
    if not _is_surely_small(encoded):
        _check_patterns(list(_iter_patterns(_iter_containers(schema))))
    return encoded


def _is_surely_small(encoded: bytes) -> bool:
    """Return whether a schema is too short to exceed any limit; takes 1 µs."""
    return (
        len(encoded) <= MAX_VALUES
        and encoded.count(b"{") + encoded.count(b"[") <= MAX_DEPTH
        and b"pattern" not in encoded
    )


def _depth_error() -> SchemaTooLarge:
    return SchemaTooLarge(
        f"is nested more than {MAX_DEPTH} levels deep: move inner objects to $defs"
    )


def _iter_containers(schema: Any) -> Iterator[Any]:
    """Yield all objects and lists within a schema, level by level."""
    level, depth, value_count = [schema], 0, 1
    while level := [value for value in level if isinstance(value, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise _depth_error()
        yield from level
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        value_count += len(level)
        if value_count > MAX_VALUES:
            raise SchemaTooLarge(
                f"has more than {MAX_VALUES:,} values: shorten its enums, or split it"
            )


def _iter_patterns(containers: Iterator[Any]) -> Iterator[str]:
    """Yield every possible pattern, wherever it is.

    A reference can turn any object into a schema, so the location proves nothing.
    """
    for container in containers:
        if not isinstance(container, dict):
            continue
        if isinstance(pattern := container.get("pattern"), str):
            yield pattern
        if isinstance(properties := container.get("patternProperties"), dict):
            yield from properties


def _check_patterns(patterns: list[str]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise SchemaTooLarge(
            f"has {len(patterns):,} patterns, more than {MAX_PATTERNS}: use enum, "
            "format or maxLength where they suffice"
        )
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise SchemaTooLarge(
                f"has the pattern '{escape_and_truncate(pattern)}' of {len(pattern):,} "
                f"characters, more than {MAX_PATTERN_LENGTH:,}: shorten it"
            )
    if (length := sum(map(len, patterns))) > MAX_PATTERNS_LENGTH:
        raise SchemaTooLarge(
            f"has patterns of {length:,} characters in total, more than "
            f"{MAX_PATTERNS_LENGTH:,}: shorten them"
        )
