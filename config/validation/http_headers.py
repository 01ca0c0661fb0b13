"""HTTP headers in the YAML."""

import re
from typing import Annotated

from pydantic import AfterValidator, SecretStr

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
