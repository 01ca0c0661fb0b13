"""Checks whether a server of this project answers."""

import http.client
import json
from urllib.parse import urlsplit

PROBE_SECONDS = 0.25
MAX_BYTES = 10_000


def is_answering(url: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """Return whether a GET of `url` returns 200 within the time."""
    return _get(url, seconds)[0] == http.HTTPStatus.OK


def read_warnings(url: str, *, seconds: float = PROBE_SECONDS) -> list[str]:
    """Return what readiness tells operators; nothing if it does not answer."""
    try:
        answer = json.loads(_get(url, seconds)[1])
    except ValueError:
        return []
    return list(answer.get("warnings", ())) if isinstance(answer, dict) else []


def _get(url: str, seconds: float) -> tuple[int, bytes]:
    """Return status and body; 0 without an answer in time."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=seconds
    )
    try:
        connection.request("GET", parts.path)
        response = connection.getresponse()
        return response.status, response.read(MAX_BYTES)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
