"""Changes of an agent's state: checked, and reduced to new values."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.state.config import StateField, ValueType
from config.validation.suggestions import did_you_mean
from core.errors import Invalid
from core.text.sanitization import escape_and_truncate

MAX_STATE_BYTES = 16 * 1024
"""Of all values of an agent in a thread, as JSON."""
MAX_DEPTH = 8

State = Mapping[str, Any]
Fields = Mapping[str, StateField]


@dataclass(frozen=True, slots=True)
class StateChange:
    """New values of fields, which their reducers combine with the stored ones."""

    values: Mapping[str, Any] = field(default_factory=dict)
    reset: Collection[str] = ()
    """Fields that are emptied first."""


def reduce_state(
    fields: Fields, state: State, change: StateChange, *, is_bounded: bool = True
) -> dict[str, Any]:
    """Return the state after a change, in the order of the declaration.

    Stored values that the declaration no longer has, or has with another type, are
    dropped. Raises `Invalid`, which names the field, for a value of another type, and
    for a state that becomes too large, unless it is not bounded.
    """
    for name in (*change.reset, *change.values):
        if name not in fields:
            known = ", ".join(fields)
            raise Invalid(
                f"the state has no field '{escape_and_truncate(name)}'"
                f"{did_you_mean(name, fields)}; its fields are {known}"
            )
    # As stored: JSON has no infinite numbers.
    values = orjson.loads(_encode(change.values))
    reduced = {}
    for name, declared in fields.items():
        value = None if name in change.reset else state.get(name)
        if value is not None and find_problem(declared, value):
            value = None
        if name in values:
            value = _reduce_value(name, declared, value, values[name])
        if value is not None:
            reduced[name] = value
    if is_bounded:
        _encode(reduced)
    return reduced


def _encode(values: State) -> bytes:
    """Return values as JSON; raises `Invalid` if they cannot be stored."""
    try:
        encoded = orjson.dumps(values)
    except TypeError as exc:  # integers of more than 64 bits, broken Unicode
        raise Invalid(f"the state cannot be stored as JSON: {exc}") from exc
    if len(encoded) > MAX_STATE_BYTES:
        raise Invalid(
            f"the state would have {len(encoded)} bytes, and has at most "
            f"{MAX_STATE_BYTES}: reset fields, or store shorter values"
        )
    return encoded


def _reduce_value(name: str, declared: StateField, current: Any, value: Any) -> Any:
    problem = find_problem(declared, value)
    if problem:
        raise Invalid(f"'{name}' {problem}", param=name)
    match declared.reducer:
        case "append" | "last":
            return [*(current or ()), *value][-declared.max_items :]
        case "union":
            return _unique([*(current or ()), *value])[-declared.max_items :]
        case "merge":
            return _merge(current or {}, value)
        case "replace":
            return value


def _unique(items: Iterable[Any]) -> list[Any]:
    # By their JSON: 1 and true are equal in Python.
    options = orjson.OPT_SORT_KEYS
    return list({orjson.dumps(each, option=options): each for each in items}.values())


def _merge(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as RFC 7396 does: objects by their keys, of which null removes one."""
    merged = dict(current)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = _merge(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def find_problem(declared: StateField, value: Any) -> str:
    """Return what is wrong with a value of a field, or ""."""
    if value is None:
        return "cannot be null: reset the field instead"
    if _depth_exceeds(value, MAX_DEPTH):
        return f"is nested more than {MAX_DEPTH} levels deep"
    expected = declared.value_type
    if expected is None:
        return ""
    if not _has_type(value, expected):
        return f"must be {ARTICLES[expected]}"
    if expected == "list" and not all(
        _has_type(each, declared.items) for each in value
    ):
        return f"must be a list, each item of which is {ARTICLES[declared.items]}"
    return ""


ARTICLES: dict[ValueType, str] = {
    "boolean": "true or false",
    "list": "a list",
    "number": "a number",
    "object": "an object",
    "text": "a text",
}


def _has_type(value: Any, expected: ValueType) -> bool:
    match expected:
        case "boolean":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "text":
            return isinstance(value, str)


def _depth_exceeds(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_depth_exceeds(each, levels - 1) for each in inner)
