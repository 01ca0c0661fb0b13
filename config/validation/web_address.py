"""Addresses of servers in the YAML."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or re.search(r"\s", value)
    ):
        raise ValueError(
            "must be an http:// or https:// address, such as http://localhost:8080/mcp"
        )
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or password")
    if parts.fragment:
        raise ValueError("must not have a fragment after #")
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]
