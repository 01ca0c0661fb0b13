"""Where the broker is: the private Valkey's socket, and how Celery names it."""

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

SCHEMES = ("redis", "rediss", "unix")
SOCKET_PATH_BYTES = 103
"""The longest path of a socket: macOS has room for 104 with the closing zero."""


def private_socket_path(state_dir: Path) -> Path:
    """Return where the private Valkey of this state directory listens.

    Beside the other files of the server, or where their path is too long for a socket
    in a short directory of its own, named by a digest of that path.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:16]
    short = f"coulisse-{digest}"
    folders = (state_dir, Path(tempfile.gettempdir(), short), Path("/tmp", short))  # noqa: S108  made 0700, and refused if it is another's
    sockets = [folder / "broker.sock" for folder in folders]
    fitting = [path for path in sockets if len(os.fsencode(path)) <= SOCKET_PATH_BYTES]
    return fitting[0]


def socket_url(path: Path) -> str:
    """Return the URL redis-py takes for a socket."""
    return f"unix://{quote(str(path))}"


def is_valid_url(url: str) -> bool:
    """Say whether the URL names a server or a socket."""
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme == "unix" else parts.hostname
        return parts.scheme in SCHEMES and bool(place) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def celery_url(url: str) -> str:
    """Return the same place in kombu's words, with certificates checked."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "unix":
        query["virtual_host"] = query.pop("db", "0")
        # redis-py takes the password here, too; kombu before the path alone.
        user, password = query.pop("username", ""), query.pop("password", "")
        who = f"{quote(user, '')}:{quote(password, '')}@" if user or password else ""
        place = f"{who or parts.netloc}{parts.path}"
        return f"redis+socket://{place}?{urlencode(query)}"
    if "db" in query:
        # kombu knows the number as a path alone.
        parts = parts._replace(path=f"/{query.pop('db')}")
    if parts.scheme == "rediss":
        # kombu checks none unless told to.
        query.setdefault("ssl_cert_reqs", "required")
    return parts._replace(query=urlencode(query)).geturl()
