"""Refusals of requests before they reach the application, and their responses."""

from typing import NamedTuple

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE


class Refusal(NamedTuple):
    """The error with which a request is refused."""

    status: int
    code: str
    message: str
    retry_after_seconds: int | None = None
    detail: str = ""
    """Further details for the log: addresses, keys of the YAML."""


REQUEST_TIMEOUT = Refusal(
    408, "request_timeout", "The request did not arrive in time. Send it again."
)
BODY_TOO_LARGE = Refusal(
    413,
    "body_too_large",
    "The body is larger than this server accepts. Send a smaller one.",
)


def build_response(
    refusal: Refusal, default_headers: list[tuple[bytes, bytes]]
) -> bytes:
    """Return the whole HTTP response, with the error in OpenAI's format."""
    error = {
        "message": refusal.message,
        "type": "invalid_request_error",
        "param": None,
        "code": refusal.code,
    }
    if refusal.status == 503:
        error["type"] = "service_unavailable"
    body = orjson.dumps({"error": error})
    headers = [
        *default_headers,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if refusal.retry_after_seconds is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after_seconds))
    lines = (b"%b: %b\r\n" % header for header in headers)
    return b"".join((STATUS_LINE[refusal.status], *lines, b"\r\n", body))
