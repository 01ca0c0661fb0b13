"""The listening socket, bound once by the supervisor and inherited by the web."""

import errno
import os
import socket
from typing import Any

from processes.errors import AddressTaken

BACKLOG = 2048
ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


def open_socket(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Bind and listen; connections wait in the backlog for a web process.

    With `is_shared` it does not listen, because others serve meanwhile: each web
    process does when it starts to serve. Raises `AddressTaken`.
    """
    try:
        listener = _open(host, port)
        if not is_shared:
            listener.listen(BACKLOG)
    except OSError as exc:
        raise AddressTaken(_explain(exc, host, port)) from exc
    return listener


def refuse_connections(listener: socket.socket, host: str, port: int) -> None:
    """Refuse connections until a web process listens again; call it without any.

    Those that wait are reset, so that a balancer sends them to another server. The
    descriptor, which web processes inherit, stays the same. Raises `OSError` if another
    program takes the port.
    """
    family, kind, protocol, address = _resolve(host, port)
    with socket.socket(family, kind, protocol) as replacement:
        _set_options(replacement, host)
        os.dup2(replacement.fileno(), listener.fileno(), inheritable=False)
    listener.bind(address)


def reachable_host(host: str) -> str:
    """Return the name by which this machine reaches a server bound to `host`."""
    if host in (*ANY_ADDRESS, "127.0.0.1", "::1"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def probe_host(host: str) -> str:
    """Return the address at which the supervisor checks its own server."""
    return "127.0.0.1" if host in ANY_ADDRESS else reachable_host(host)


def reserve_port(port: int) -> socket.socket:
    """Reserve a port on 127.0.0.1 for a child, which listens on it itself.

    The system assigns the port to no other program while the child restarts. Raises
    `AddressTaken`.
    """
    placeholder = socket.socket()
    try:
        # Shared with sockets that request this very port and share it, as the local
        # model's server does (SO_REUSEADDR on Linux, SO_REUSEPORT on macOS).
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        placeholder.bind(("127.0.0.1", port))
    except OSError as exc:
        placeholder.close()
        raise AddressTaken(
            f"port {port}, chosen for the local model, is now in use: start again"
        ) from exc
    return placeholder


def find_free_port() -> int:
    """Return a free port on 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _open(host: str, port: int) -> socket.socket:
    family, kind, protocol, address = _resolve(host, port)
    listener = socket.socket(family, kind, protocol)
    try:
        _set_options(listener, host)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _resolve(host: str, port: int) -> tuple[int, int, int, Any]:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return family, kind, protocol, address


def _set_options(listener: socket.socket, host: str) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listener.family == socket.AF_INET6 and host in ANY_ADDRESS:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)


def _explain(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return (
            f"port {port} is already in use: stop the program that listens there, "
            "or set another server.port in the YAML"
        )
    if exc.errno == errno.EACCES:
        return f"no permission to use port {port}: set server.port to 1024 or more"
    return (
        f"cannot listen on {host}:{port} ({exc.strerror}): "
        "correct server.bind in the YAML"
    )
