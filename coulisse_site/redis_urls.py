"""URLs of the broker: the private Valkey's socket, and Celery's notation."""

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

SCHEMES = ("redis", "rediss", "unix")
SOCKET_PATH_BYTES = 103
"""Maximum length of a socket's path: macOS allows 104 with the terminating zero."""


def private_socket_path(state_dir: Path) -> Path:
    """Return the path of the socket of this state directory's private Valkey.

    The socket is in the state directory. If that path is too long for a socket, it is
    in a temporary directory, named by a digest of the path.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:16]
    short = f"coulisse-{digest}"
    folders = (state_dir, Path(tempfile.gettempdir(), short), Path("/tmp", short))  # noqa: S108  created with 0700, and refused if another user owns it
    sockets = [folder / "broker.sock" for folder in folders]
    fitting = [path for path in sockets if len(os.fsencode(path)) <= SOCKET_PATH_BYTES]
    return fitting[0]


def socket_url(path: Path) -> str:
    """Return the URL of a socket for redis-py."""
    return f"unix://{quote(str(path))}"


def is_valid_url(url: str) -> bool:
    """Return whether the URL names a server or a socket."""
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme == "unix" else parts.hostname
        return parts.scheme in SCHEMES and bool(place) and parts.port != 0
    except ValueError:  # the port is not a number
        return False


def celery_url(url: str) -> str:
    """Return the URL in kombu's notation, with certificate checks enabled."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "unix":
        query["virtual_host"] = query.pop("db", "0")
        # redis-py also accepts the password here; kombu only before the path.
        user, password = query.pop("username", ""), query.pop("password", "")
        login = f"{quote(user, '')}:{quote(password, '')}@" if user or password else ""
        place = f"{login or parts.netloc}{parts.path}"
        return f"redis+socket://{place}?{urlencode(query)}"
    if "db" in query:
        # kombu accepts the number only as a path.
        parts = parts._replace(path=f"/{query.pop('db')}")
    if parts.scheme == "rediss":
        # kombu checks no certificates by default.
        query.setdefault("ssl_cert_reqs", "required")
    return parts._replace(query=urlencode(query)).geturl()
