"""Limits on a request's target and headers.

llhttp, which parses them, refuses folded lines, bare line ends, control characters,
and a Content-Length that is repeated, malformed or beside a Transfer-Encoding. It sets
no limit on sizes. Source: RFC 9110 and RFC 9112.
"""

from collections.abc import Sequence

from processes.http_server.refusals import Refusal

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADER_LINES = 100
MAX_HOST_BYTES = 255
MAX_TARGET_BYTES = 16 * 1024
"""Limit of path and query together."""
LINE_OVERHEAD = 4
"""Bytes of a header line beside its name and value: `: ` and the line end."""

MALFORMED = Refusal(400, "malformed_request", "The request is not valid HTTP/1.1.")
HEAD_TOO_LARGE = Refusal(
    431, "headers_too_large", f"The headers exceed the limit of {MAX_HEAD_BYTES} bytes."
)
TOO_MANY_LINES = Refusal(
    431,
    "too_many_headers",
    f"The request exceeds the limit of {MAX_HEADER_LINES} header lines.",
)
TARGET_TOO_LONG = Refusal(
    414, "url_too_long", f"The URL exceeds the limit of {MAX_TARGET_BYTES} bytes."
)
HOST_MISSING = Refusal(400, "host_missing", "The request has no Host header.")
HOST_REPEATED = Refusal(
    400, "host_repeated", "The request has more than one Host header: send one."
)
HOST_TOO_LONG = Refusal(
    400,
    "host_too_long",
    f"The Host header exceeds the limit of {MAX_HOST_BYTES} bytes.",
)


def check_head(
    target: bytes, headers: Sequence[tuple[bytes, bytes]], http_version: str
) -> Refusal | None:
    """Return the refusal of a request's target or headers; names are in lower case."""
    if len(target) > MAX_TARGET_BYTES:
        return TARGET_TOO_LONG
    if len(headers) > MAX_HEADER_LINES:
        return TOO_MANY_LINES
    size = len(target) + LINE_OVERHEAD * len(headers)
    hosts = 0
    for name, value in headers:
        size += len(name) + len(value)
        if name == b"host":
            hosts += 1
            if len(value) > MAX_HOST_BYTES:
                return HOST_TOO_LONG
    if size > MAX_HEAD_BYTES:
        return HEAD_TOO_LARGE
    if hosts > 1:
        return HOST_REPEATED
    return HOST_MISSING if not hosts and http_version == "1.1" else None
