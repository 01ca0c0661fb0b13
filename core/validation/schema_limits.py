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
    """A schema is beyond a limit; the message names the limit and what to do."""


def check_schema(schema: Any) -> bytes:
    """Return a schema as JSON; raises `SchemaTooLarge`."""
    try:
        written = orjson.dumps(schema)
    except orjson.JSONEncodeError as exc:
        if "ecursion" in str(exc):
            raise _depth_error() from exc
        # A number beyond 64 bits, or a lone surrogate.
        raise SchemaTooLarge("cannot be written as JSON") from exc
    if len(written) > MAX_BYTES:
        raise SchemaTooLarge(
            f"has {len(written):,} bytes, at most {MAX_BYTES:,} are accepted: shorten "
            "its descriptions, or split it"
        )
    if not _is_surely_small(written):
        _check_patterns(list(_iter_patterns(_iter_containers(schema))))
    return written


def _is_surely_small(written: bytes) -> bool:
    """Return whether a schema is too short to exceed any limit; takes 1 µs."""
    return (
        len(written) <= MAX_VALUES
        and written.count(b"{") + written.count(b"[") <= MAX_DEPTH
        and b"pattern" not in written
    )


def _depth_error() -> SchemaTooLarge:
    return SchemaTooLarge(
        f"is nested more than {MAX_DEPTH} levels deep: move inner objects to $defs"
    )


def _iter_containers(schema: Any) -> Iterator[Any]:
    """Yield all objects and lists within a schema, level by level."""
    level, depth, values = [schema], 0, 1
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise _depth_error()
        yield from level
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        values += len(level)
        if values > MAX_VALUES:
            raise SchemaTooLarge(
                f"has more than {MAX_VALUES:,} values: shorten its enums, or split it"
            )


def _iter_patterns(containers: Iterator[Any]) -> Iterator[str]:
    """Yield every possible pattern, wherever it is.

    A reference can turn any object into a schema, so the location proves nothing.
    """
    for each in containers:
        if not isinstance(each, dict):
            continue
        if isinstance(pattern := each.get("pattern"), str):
            yield pattern
        if isinstance(named := each.get("patternProperties"), dict):
            yield from named


def _check_patterns(patterns: list[str]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise SchemaTooLarge(
            f"has {len(patterns):,} patterns, at most {MAX_PATTERNS} are accepted: "
            "use enum, format or maxLength where they suffice"
        )
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise SchemaTooLarge(
                f"has the pattern '{escape_and_truncate(pattern)}' of {len(pattern):,} "
                f"characters, at most {MAX_PATTERN_LENGTH:,} are accepted: shorten it"
            )
    if (length := sum(map(len, patterns))) > MAX_PATTERNS_LENGTH:
        raise SchemaTooLarge(
            f"has patterns of {length:,} characters, at most {MAX_PATTERNS_LENGTH:,} "
            "are accepted in all: shorten them"
        )
