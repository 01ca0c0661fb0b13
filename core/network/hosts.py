"""The host names that the server answers to.

A web page may point its own host name at this machine (DNS rebinding) and then send
requests as if it were of the same origin. Such a name contains a dot. So `localhost`,
IP addresses and names without a dot are safe.
"""

import ipaddress
import re
import socket
from functools import lru_cache
from urllib.parse import urlsplit

LOCAL_NAMES = {"", socket.gethostname().lower()}

PORT_PATTERN = re.compile(r":\d*$")


MAX_HOST_BYTES = 255
"""The maximum length of a Host header, or of the name in an Origin."""


def is_allowed(header: bytes, allowed: tuple[str, ...]) -> bool:
    """Return whether a Host header names this server.

    `allowed` are further names of the server: `example.com`, `.example.com` for it and
    all its subdomains, `*` for any name.
    """
    return len(header) <= MAX_HOST_BYTES and _is_allowed(_host_name(header), allowed)


@lru_cache(maxsize=256)
def _is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    if "." not in host or host in LOCAL_NAMES or host.endswith(".localhost"):
        return True
    return _is_address(host) or _is_listed(host, allowed)


def is_listed(header: bytes, allowed: tuple[str, ...]) -> bool:
    """Return whether a Host header is one of these names."""
    return len(header) <= MAX_HOST_BYTES and _is_listed(_host_name(header), allowed)


def _is_listed(host: str, allowed: tuple[str, ...]) -> bool:
    return any(_matches(host, name.lower()) for name in allowed)


def _host_name(header: bytes) -> str:
    return PORT_PATTERN.sub("", header.decode("latin1").lower()).rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _matches(host: str, name: str) -> bool:
    if name.startswith("."):
        return host.endswith(name) or host == name[1:]
    return name in ("*", host)


def is_own_origin(origin: str, host: str | None, allowed: tuple[str, ...]) -> bool:
    """Return whether an `Origin` is this server's, by the host that its client uses.

    `allowed` are further names of the server, as in `is_allowed`.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if not parts.netloc:
        return False
    if parts.netloc == host:
        return True
    name = parts.netloc.encode("latin-1", "replace")
    return "*" not in allowed and is_listed(name, allowed)
