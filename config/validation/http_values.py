"""Addresses of servers and HTTP headers in the YAML."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or re.search(r"\s", value)
    ):
        raise ValueError(
            "must be an http:// or https:// address, such as http://localhost:8080"
        )
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or password")
    if parts.fragment:
        raise ValueError("must not have a fragment after #")
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]


NAME_PATTERN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
"""Control characters, and lone surrogates, which cannot be encoded."""


def _check_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not NAME_PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid HTTP header name")
        if UNSENDABLE.search(value.get_secret_value()):
            raise ValueError(f"the value of {name!r} contains control characters")
    return headers


Headers = Annotated[dict[str, SecretStr], AfterValidator(_check_headers)]
"""Names and values; values may be keys, so messages never show them."""
