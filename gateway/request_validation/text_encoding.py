"""Decoding of request text: UTF-8 only, with size limits.

Django decodes a query and a form in the charset that `Content-Type` names, which may be
any codec of Python: some make text that cannot be stored, and some fail. Python also
keeps the names of unknown codecs in memory. The charset is therefore ignored.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import IO, Any

from django.core.handlers.asgi import ASGIRequest
from django.utils.http import parse_header_parameters

from api_base import encoded_slashes
from core.errors import Invalid

MAX_CONTENT_TYPE_BYTES = 255
"""Django's parser would take seconds for a long header, on the event loop."""


class Utf8Request(ASGIRequest):
    """A request whose query and forms are UTF-8, whatever charset it names."""

    def __init__(self, scope: dict[str, Any], body_file: IO[bytes]) -> None:
        super().__init__(scope, body_file)
        if self.path_info.startswith(encoded_slashes.PREFIX):
            self.path_info = encoded_slashes.mark(scope, self.path_info)

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        header = meta.get("CONTENT_TYPE", "")
        # The request object exists before the check; text that the check refuses is not
        # parsed.
        self.content_type, parameters = _parse_content_type(
            "" if _content_type_problem(header) else header
        )
        self.content_params = dict(parameters)
        self._encoding = "utf-8"


# Clients send few different ones.
@lru_cache(maxsize=64)
def _parse_content_type(header: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    name, parameters = parse_header_parameters(header)
    return name, tuple(parameters.items())


def check_encoding(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
    """Raise `Invalid` for a URL or a Content-Type that must not be parsed."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise Invalid("The URL has a NUL character (%00), which cannot be stored")
    problem = _content_type_problem(headers.get(b"content-type", b"").decode("latin-1"))
    if problem is not None:
        raise Invalid(f"The header Content-Type {problem}", param="Content-Type")


def _content_type_problem(content_type: str) -> str | None:
    """Return why a Content-Type must not be parsed; None if it may be."""
    if len(content_type) > MAX_CONTENT_TYPE_BYTES:
        return f"is longer than {MAX_CONTENT_TYPE_BYTES} bytes"
    if "*" in content_type.partition(";")[2]:
        return (
            "has an encoded parameter (RFC 2231), which is not supported: write it as "
            "name=value"
        )
    return None
