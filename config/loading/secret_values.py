"""Find the secrets in configuration values."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

SECRET_NAME = re.compile(
    r"auth|cookie|credential|key|pass|secret|session|signature|token", re.IGNORECASE
)
SCHEMES = {"apikey", "basic", "bearer", "bot", "token"}
"""Words that precede a secret in a header."""
FREE_FORM_MAPS = ("env", "headers")
"""Maps with user-chosen names."""
MIN_RANDOM_LENGTH = 20


def find_secrets(value: Any) -> Iterator[str]:
    """Yield every secret in a value.

    Fields of a secret type always count. In free-form maps, such as headers and
    environments, values count if their name or content looks like a secret.
    """
    if isinstance(value, SecretStr):
        yield from _secret_words(value.get_secret_value())
    elif isinstance(value, BaseModel):
        # A copy: other threads may add attributes while this one iterates.
        yield from _find_in_each([*vars(value).values()])
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            if not isinstance(entry, SecretStr) or is_secret(
                str(name), entry.get_secret_value()
            ):
                yield from find_secrets(entry)
    elif isinstance(value, list | tuple | set | frozenset):
        yield from _find_in_each(value)


def find_named_secrets(data: Any) -> Iterator[str]:
    """Yield the values with secret-like names in unvalidated data.

    It also yields non-secrets, such as a sign-in URL. It is for redacting output of
    other programs, where an extra match is harmless.
    """
    entries = data.items() if isinstance(data, Mapping) else ()
    for name, entry in entries:
        if isinstance(entry, str | int | float) and SECRET_NAME.search(str(name)):
            yield from _secret_words(str(entry))
        elif name in FREE_FORM_MAPS and isinstance(entry, Mapping):
            yield from find_secrets(
                {key: SecretStr(str(it)) for key, it in entry.items()}
            )
        else:
            yield from find_named_secrets(entry)
    if isinstance(data, list | tuple):
        for entry in data:
            yield from find_named_secrets(entry)


def _find_in_each(values: Any) -> Iterator[str]:
    for value in values:
        yield from find_secrets(value)


def _secret_words(secret: str) -> Iterator[str]:
    """Yield `Bearer abc`, and `abc` alone."""
    yield secret
    scheme, _, rest = secret.partition(" ")
    if scheme.lower() in SCHEMES:
        yield rest


def is_secret(name: str, text: str) -> bool:
    """Return whether a free-form value has a secret-like name or content."""
    if SECRET_NAME.search(name):
        return True
    return (
        len(text) >= MIN_RANDOM_LENGTH
        and any(c.isdigit() for c in text)
        and any(c.isalpha() for c in text)
        and not any(c.isspace() or c in "/\\" for c in text)
    )
