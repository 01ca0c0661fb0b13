"""Prompt templates with placeholders for a webhook's payload: `{{a.b.c}}`.

Inserted values are plain text: placeholders in them are not expanded.
"""

import re
from typing import Any

import orjson

PLACEHOLDER = re.compile(r"\{\{([^{}]+)\}\}")


class PathMissing(LookupError):
    """The payload has no value at a path."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class NestingTooDeep(ValueError):
    """A value is nested too deeply to be serialized."""


def is_template(text: str) -> bool:
    """Return whether a text has placeholders."""
    return PLACEHOLDER.search(text) is not None


def render(template: str, payload: Any, *, is_strict: bool = False) -> str:
    """Return the text; a placeholder without a value stays, as `{{ a.b.c }}`.

    If `is_strict`, a path without a value, or with null, raises `PathMissing`. Raises
    `NestingTooDeep` as well.
    """

    def insert(placeholder: re.Match[str]) -> str:
        path = placeholder[1].strip()
        try:
            value = _value_at(payload, path)
        except PathMissing:
            if is_strict:
                raise
            return f"{{{{ {path} }}}}"
        if is_strict and value is None:
            raise PathMissing(path)
        return _to_text(value)

    return PLACEHOLDER.sub(insert, template)


def _value_at(payload: Any, path: str) -> Any:
    """Return the value at a path; a number is an index of a list, from 0."""
    value = payload
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise PathMissing(path)
    return value


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdecimal() and len(step) <= 6


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as exc:
        # The parser accepts deeper nesting than the serializer.
        raise NestingTooDeep from exc
