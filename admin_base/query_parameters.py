"""Readers of query parameters; each raises `Invalid`."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from core.errors import Invalid

MAX_DIGITS = 18


def query_int(
    query: Mapping[str, str],
    name: str,
    *,
    default: int,
    minimum: int = 1,
    maximum: int = 1000,
) -> int:
    text = query.get(name, "")
    if text == "":
        return default
    # Python refuses to read thousands of digits.
    is_number = text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or not minimum <= int(text) <= maximum:
        raise Invalid(
            f"'{name}' must be a whole number from {minimum} to {maximum}", param=name
        )
    return int(text)


def query_choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> Any:
    """Return one of the choices, or None."""
    value = query.get(name)
    if not value:
        return None
    if value not in choices:
        raise Invalid(f"'{name}' must be one of {', '.join(choices)}", param=name)
    return value


def check_names(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse parameters that a page does not know."""
    for name in set(names) - {*known}:
        raise Invalid(
            f"There is no parameter '{name:.80}' here. There are: {', '.join(known)}",
            param=name,
        )
