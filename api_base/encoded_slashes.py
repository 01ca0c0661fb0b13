"""Names in addresses: an encoded slash (%2F) is part of a name, not of the address.

Servers decode addresses before routes compare them: the thread `trip/state` would look
like the state of the thread `trip`. Encoded slashes are marked until then.
"""

from typing import Any
from urllib.parse import unquote

from django.urls.converters import PathConverter

MARK = "\0"
"""Stands for an encoded slash. Requests with NUL in their address are refused."""
PREFIX = "/v1/threads/"
"""The addresses that contain such names."""


class NameConverter(PathConverter):
    """A name in a route; slashes that are not encoded are part of it, too."""

    def to_python(self, value: str) -> str:
        return value.replace(MARK, "/")


def mark(scope: dict[str, Any], path: str) -> str:
    """Return the path of a request with `MARK` for each encoded slash."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2" not in raw:
        return path
    marked = raw.replace(b"%2f", b"%00").replace(b"%2F", b"%00")
    return unquote(marked.decode("latin-1"))
