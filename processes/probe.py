"""Ask a server of ours whether it answers."""

import http.client
from urllib.parse import urlsplit

PROBE_SECONDS = 0.25


def answers(url: str) -> bool:
    """Say whether a GET of `url` gives 200 at once."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=PROBE_SECONDS
    )
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
