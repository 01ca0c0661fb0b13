"""Checks whether a server of this project answers."""

import http.client
from urllib.parse import urlsplit

PROBE_SECONDS = 0.25


def is_answering(url: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """Return whether a GET of `url` returns 200 within the time."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=seconds
    )
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
