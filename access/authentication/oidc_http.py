"""Requests to identity providers, with limits on time and size, without redirects.

They run in threads, never on an event loop.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson

from access.errors import IdentityProviderBroken, IdentityProviderDown

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 1024 * 1024
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
CHUNK_BYTES = 64 * 1024


def get_json(url: str) -> dict[str, Any]:
    """Return the JSON object at an address.

    Raises `IdentityProviderDown`, and `IdentityProviderBroken` for any other response.
    """
    status, content = _send("GET", url)
    if status != 200:
        raise IdentityProviderBroken(f"{_url_for_messages(url)} returned {status}")
    return content


def post_form(
    url: str, form: Mapping[str, str], *, headers: Mapping[str, str]
) -> tuple[int, dict[str, Any]]:
    """Send a form; return the status and the JSON object of the response."""
    return _send("POST", url, headers, data=dict(form))


def _send(
    method: str, url: str, headers: Mapping[str, str] | None = None, **content: Any
) -> tuple[int, dict[str, Any]]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        with httpx2.stream(
            method,
            url,
            headers={**HEADERS, **(headers or {})},
            timeout=TIMEOUT_SECONDS,
            **content,
        ) as response:
            body = _read_body(url, response, deadline)
            return response.status_code, _parse_object(url, body)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
        raise IdentityProviderDown(
            f"{_url_for_messages(url)} cannot be reached ({type(exc).__name__})"
        ) from exc


def _read_body(url: str, response: httpx2.Response, deadline: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_BYTES:
            raise IdentityProviderBroken(
                f"{_url_for_messages(url)} returned more than {MAX_BYTES} bytes"
            )
        if time.monotonic() > deadline:
            raise IdentityProviderDown(
                f"{_url_for_messages(url)} did not respond within "
                f"{TIMEOUT_SECONDS:g} seconds"
            )
    return bytes(body)


def _parse_object(url: str, body: bytes) -> dict[str, Any]:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise IdentityProviderBroken(
            f"{_url_for_messages(url)} did not return a JSON object"
        )
    return content


def _url_for_messages(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
