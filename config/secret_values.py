"""The secrets in the values of a configuration, wherever they stand."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

SECRET_NAME = re.compile(
    r"auth|cookie|credential|key|pass|secret|session|signature|token", re.IGNORECASE
)
SCHEMES = {"apikey", "basic", "bearer", "bot", "token"}
"""Words that stand before a secret in a header."""
LONG = 20


def within(value: Any) -> Iterator[str]:
    """Yield every secret in a value.

    A field made to hold a secret is one. Of maps whose values may be anything, such as
    headers and environments, those are secrets that are named like one or look so.
    """
    if isinstance(value, SecretStr):
        yield from _words(value.get_secret_value())
    elif isinstance(value, BaseModel):
        yield from _of_each(vars(value).values())
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            if not isinstance(entry, SecretStr) or _is_secret(str(name), entry):
                yield from within(entry)
    elif isinstance(value, list | tuple | set | frozenset):
        yield from _of_each(value)


def _of_each(values: Any) -> Iterator[str]:
    for value in values:
        yield from within(value)


def _words(secret: str) -> Iterator[str]:
    """Yield `Bearer abc`, and `abc` alone."""
    yield secret
    scheme, _, rest = secret.partition(" ")
    if scheme.lower() in SCHEMES:
        yield rest


def _is_secret(name: str, value: SecretStr) -> bool:
    if SECRET_NAME.search(name):
        return True
    text = value.get_secret_value()
    return (
        len(text) >= LONG
        and any(c.isdigit() for c in text)
        and any(c.isalpha() for c in text)
        and not any(c.isspace() or c in "/\\" for c in text)
    )
