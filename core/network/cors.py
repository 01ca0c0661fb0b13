"""Cross-origin requests of browsers (CORS): the headers of responses.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

import string
from collections.abc import Sequence

Headers = list[tuple[bytes, bytes]]

METHODS = b"GET, POST, PUT, PATCH, DELETE"
MAX_AGE_SECONDS = b"7200"
"""How long browsers need not ask again; Chromium's maximum."""
MAX_REQUESTED_BYTES = 4096
HEADER_NAME_CHARACTERS = f"{string.ascii_letters}{string.digits}-_, ".encode()
EXPOSED = (b"x-coulisse-", b"x-ratelimit-", b"x-request-id", b"retry-after")
"""How the headers begin that pages may read."""


def is_allowed(origin: str, allowed: Sequence[str]) -> bool:
    """Return whether pages of an origin may call the server."""
    return "*" in allowed or origin in allowed


def origin_headers(origin: bytes, allowed: Sequence[str]) -> Headers:
    """Return the headers of a response to a page; none for a page that may not call.

    Cookies are only accepted from origins that are listed by name.
    """
    if origin.decode("latin1") in allowed:
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-credentials", b"true"),
            (b"vary", b"Origin"),
        ]
    return [(b"access-control-allow-origin", b"*")] if "*" in allowed else []


def preflight_headers(requested: bytes) -> Headers:
    """Return the further headers of the response to a preflight request.

    `requested` are the names of the headers that the page wants to send.
    """
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", MAX_AGE_SECONDS),
    ]
    has_others = requested.translate(None, HEADER_NAME_CHARACTERS)
    if requested and not has_others and len(requested) <= MAX_REQUESTED_BYTES:
        headers.append((b"access-control-allow-headers", requested))
    return headers


def exposed_headers(headers: Headers) -> Headers:
    """Return the header that lets pages read the server's own headers."""
    names = sorted({name for name, _ in headers if name.lower().startswith(EXPOSED)})
    return [(b"access-control-expose-headers", b", ".join(names))]
