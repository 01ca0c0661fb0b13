"""The open connections of one web process: their number, and which are overdue.

One timer a second checks all of them, so a request that arrives in time costs nothing:
it sets and cancels no timer of its own.
"""

import asyncio
import ipaddress
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from config.config import ServerConfig
from core.network import client_addresses
from processes.http_server.refusals import Refusal

logger = logging.getLogger(__name__)

LOG_SECONDS = 60.0
"""Events of one kind are logged at most once in this time, with their number."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the number of connections, and on slow clients."""

    max_connections: int = 1000
    max_connections_per_address: int | None = None
    trusted_proxies: tuple[Network, ...] = ()
    reserve: int = 64
    """Connections beyond the limits that receive a 503; further ones are closed."""
    max_body_bytes: int = 2 * 1024 * 1024
    head_seconds: float = 10.0
    """Time from a request's first byte, or the connection, to the end of the headers.
    """
    body_seconds: float = 60.0
    body_bytes_per_second: int = 32 * 1024
    """Average speed at which a body may take longer than `body_seconds`."""
    window_seconds: float = 20.0
    """Window over which `min_bytes_per_second` is measured, for an open body and for a
    complete response that the client has not read yet."""
    min_bytes_per_second: int = 1024
    idle_seconds: float = 5.0
    """Time between two requests of one connection."""
    linger_seconds: float = 2.0
    """Time for a refused client to read the error before its connection is reset."""
    poll_seconds: float = 1.0

    @property
    def max_framed_body_bytes(self) -> int:
        """Maximum size of one body including its chunk framing.

        It is the only limit on chunk extensions and trailers. A client that sends two
        bytes per chunk stays below it.
        """
        return 4 * self.max_body_bytes + 64 * 1024

    @classmethod
    def from_config(cls, server: ServerConfig) -> "ConnectionLimits":
        return cls(
            max_connections=server.max_connections,
            max_connections_per_address=server.max_connections_per_address,
            trusted_proxies=tuple(
                ipaddress.ip_network(network, strict=False)
                for network in server.trusted_proxies
            ),
            max_body_bytes=server.max_body_bytes,
        )


class LimitedConnection(Protocol):
    """The interface between the table and a connection."""

    def check_timeout(self, now: float) -> None:
        """Close the connection if its client is overdue."""


@dataclass(slots=True)
class LogBurst:
    """Events of one kind, logged together with their number."""

    text: str
    """The log line: the number, then the details of the last event."""
    count: int = 0
    last: str = ""
    logged_at: float = field(default=-LOG_SECONDS)

    def record(self, now: float, details: str) -> None:
        self.count += 1
        self.last = details
        self.log_if_due(now)

    def log_if_due(self, now: float) -> None:
        if self.count and now - self.logged_at >= LOG_SECONDS:
            logger.warning(self.text, self.count, self.last)
            self.count, self.logged_at = 0, now


class ConnectionTable:
    """Counts connections, refuses those beyond the limits, and closes overdue ones."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.refused = LogBurst("%d connections refused: %s")
        self.malformed = LogBurst("%d malformed requests: %s")
        self.overdue = LogBurst("%d connections of slow clients closed: %s")
        self._open: dict[LimitedConnection, str | None] = {}
        self._per_address: Counter[str] = Counter()
        self._excess: set[LimitedConnection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: LimitedConnection, client: str | None) -> Refusal | None:
        """Count a connection; return the refusal of its requests, if any."""
        address = self._counted_address(client)
        refusal = self._refusal(address)
        if refusal is not None:
            address = None  # Refused connections do not count for their address.
            self._excess.add(connection)
            details = f"{refusal.message} [details: {refusal.detail}]"
            self.refused.record(asyncio.get_running_loop().time(), details)
        elif address is not None:
            self._per_address[address] += 1
        self._open[connection] = address
        if self._timer is None:
            self._schedule_check()
        return refusal

    def is_beyond_reserve(self) -> bool:
        """Return whether there are too many refused connections to answer another."""
        return len(self._excess) > self.limits.reserve

    def replace(
        self, connection: LimitedConnection, successor: LimitedConnection
    ) -> None:
        """Count a connection under the protocol that it has switched to."""
        self._open[successor] = self._open.pop(connection)
        if connection in self._excess:
            self._excess.remove(connection)
            self._excess.add(successor)

    def discard(self, connection: LimitedConnection) -> None:
        address = self._open.pop(connection, None)
        self._excess.discard(connection)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def _refusal(self, address: str | None) -> Refusal | None:
        limits = self.limits
        if len(self._open) - len(self._excess) >= limits.max_connections:
            return _too_many_connections(
                "This server process has reached its limit of "
                f"{limits.max_connections} open connections",
                detail="server.max_connections",
            )
        limit = limits.max_connections_per_address
        if address is None or limit is None or self._per_address[address] < limit:
            return None
        return _too_many_connections(
            f"Your address has reached its limit of {limit} open connections",
            detail=f"{address}; server.max_connections_per_address; if it is a reverse "
            "proxy, add it to server.trusted_proxies",
        )

    def _counted_address(self, client: str | None) -> str | None:
        """Return the address under which a client is counted; None if unlimited."""
        if client is None or self.limits.max_connections_per_address is None:
            return None
        address = client_addresses.parse(client)
        if address is None or address.is_loopback:
            return None  # A Unix socket, or this machine.
        if any(address in network for network in self.limits.trusted_proxies):
            return None
        return client_addresses.client_network(client)

    def _schedule_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.limits.poll_seconds, self._check_connections)

    def _check_connections(self) -> None:
        self._timer = None
        if self._open:
            self._schedule_check()
        now = asyncio.get_running_loop().time()
        for burst in (self.refused, self.malformed, self.overdue):
            burst.log_if_due(now)
        for connection in tuple(self._open):
            connection.check_timeout(now)


def _too_many_connections(message: str, *, detail: str) -> Refusal:
    return Refusal(503, "too_many_connections", message, 2, detail)
