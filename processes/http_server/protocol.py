"""uvicorn's HTTP and WebSocket protocols, with limits on sizes and slow clients.

uvicorn limits neither the size of headers nor how long a request may take to arrive
(its `h11_max_incomplete_event_size` is for h11 alone, and we use httptools).
"""

import asyncio
from functools import partial
from typing import Any, Literal

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from processes.http_server import refusals, refused_requests, request_heads
from processes.http_server.connections import ConnectionLimits, ConnectionTable
from processes.http_server.refusals import Refusal

LIVENESS = b"/health/live"
"""Answered beyond the limit of connections, too, because the process is alive."""
MAX_PIPELINED = 8
"""Requests that a client may send before the first is answered."""
State = Literal["head", "body", "answer", "idle", "closing", "refused"]
"""What a connection waits for; "closing": for the client to read the response."""
TIMEOUT_MESSAGES = {
    "head": "the headers did not arrive in time",
    "body": "the body did not arrive in time",
    "idle": "bytes arrived that are not part of a request",
    "closing": "the response was not read in time",
}


class TransferProgress:
    """Progress of a transfer, measured in windows of time."""

    def __init__(self, now: float, count: int) -> None:
        self.started_at = self._window_at = now
        self.first = self._count = count

    def pause(self, seconds: float) -> None:
        """Exclude time in which the client had to wait for the server."""
        self.started_at += seconds
        self._window_at += seconds

    def is_slow(self, now: float, count: int, limits: ConnectionLimits) -> bool:
        """Return whether a window has ended with too few bytes transferred."""
        seconds = now - self._window_at
        if seconds < limits.window_seconds:
            return False
        moved = abs(count - self._count)
        self._window_at, self._count = now, count
        return moved < seconds * limits.min_bytes_per_second


class HttpProtocol(HttpToolsProtocol):
    """One HTTP/1 connection."""

    def __init__(self, *args: Any, table: ConnectionTable, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table
        self._refusal: Refusal | None = None
        """Why the connection or the current request is refused."""
        self._is_refused = False
        """Whether the refusal was sent; further input is discarded."""
        self._received = 0
        self._head_bytes = 0
        self._body_at = 0
        self._has_length = False
        """Whether the request declares the length of its body."""
        self._max_framed_body_bytes = table.limits.max_framed_body_bytes
        self._running: RequestResponseCycle | None = None
        """The request in progress; `cycle` is the last one that arrived."""
        self._state: tuple[State | None, object] = (None, None)
        self._progress = TransferProgress(0.0, 0)
        self._checked_at = 0.0

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        client = None if self.client is None else self.client[0]
        self._refusal = self._table.add(self, client)
        if self._refusal is not None and self._table.is_beyond_reserve():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.discard(self)
        self._disconnect_running()
        super().connection_lost(exc)

    def _start_asgi_task(
        self, cycle: RequestResponseCycle, app: ASGI3Application
    ) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _disconnect_running(self) -> None:
        """Send `http.disconnect` to the application, and discard its response.

        uvicorn sends it to the last request that arrived, which may still be queued
        behind the one in progress.
        """
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        # From here on, only the other protocol receives events.
        self._table.replace(self, self.transport.get_protocol())  # type: ignore[arg-type]

    # Input.

    def data_received(self, data: bytes) -> None:
        """As in uvicorn, but counts the bytes, and answers errors as JSON."""
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        scope = self.scope
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal or request_heads.MALFORMED)
        except httptools.HttpParserUpgrade as exc:
            if self._ignores_upgrade():
                self._serve_without_upgrade(data[exc.args[0] :])
            elif self._should_upgrade():
                self.handle_websocket_upgrade()
        else:
            self._check_sizes(scope, len(data))

    def _should_upgrade(self) -> bool:
        # Only a GET can become a WebSocket.
        return self.parser.get_method() == b"GET" and super()._should_upgrade()

    def _ignores_upgrade(self) -> bool:
        """Return whether the request asks for a protocol that is not available."""
        return (
            self.parser.should_upgrade()
            and not self._should_upgrade()
            and b"upgrade" in dict(self.headers)
        )

    def _serve_without_upgrade(self, rest: bytes) -> None:
        """Parse the request again without its `Upgrade`, which a server may ignore.

        Java's client sends `Upgrade: h2c` with every first request. The parser expects
        another protocol after the headers, so that it would take the body for the next
        request.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _check_sizes(self, scope: object, size: int) -> None:
        """Refuse an incomplete request that is already too large."""
        headers = self.headers  # Or trailers, once the body has started.
        if headers is not None and len(headers) > request_heads.MAX_HEADER_LINES:
            self._refuse(request_heads.TOO_MANY_LINES)
        elif scope is self.scope and self._is_in_head():
            self._head_bytes += size
            if self._head_bytes > request_heads.MAX_HEAD_BYTES:
                self._refuse(request_heads.HEAD_TOO_LARGE)
        elif (
            not self._has_length
            and self._received - self._body_at > self._max_framed_body_bytes
            and self.cycle.more_body
            and not self.cycle.response_started
        ):
            # The application limits bodies, but does not see the framing of chunks.
            self._refuse(refusals.BODY_TOO_LARGE)

    def _is_in_head(self) -> bool:
        # Blank lines may precede a request; they create no scope.
        return self.scope is None or "method" not in self.scope

    def on_headers_complete(self) -> None:
        if self._ignores_upgrade():
            return
        self._head_bytes = 0
        self._body_at = self._received
        self._has_length = b"content-length" in dict(self.headers)
        refusal = self._refusal_of_head()
        if refusal is not None:
            self._refusal = refusal
            raise ValueError(refusal.code)  # Stops the parser.
        super().on_headers_complete()
        if self._refusal is not None:
            self.cycle.keep_alive = False
        if not self.parser.should_upgrade():
            # Trailers may follow; the headers have been checked.
            self.headers = []

    def on_message_complete(self) -> None:
        if not self._ignores_upgrade():
            super().on_message_complete()

    def _refusal_of_head(self) -> Refusal | None:
        if self._refusal is not None and self.url != LIVENESS:
            return self._refusal
        if len(self.pipeline) >= MAX_PIPELINED:
            return request_heads.MALFORMED
        version = self.parser.get_http_version()
        return request_heads.check_head(self.url, self.headers, version)

    # Timeouts.

    def check_timeout(self, now: float) -> None:
        """Close the connection if its client is overdue."""
        state = self._current_state()
        before, self._state = self._state, (state, self.cycle)
        passed, self._checked_at = now - self._checked_at, now
        count = self._received
        if state == "closing":
            count = self.transport.get_write_buffer_size()
        if before[0] != state or before[1] is not self.cycle:
            self._progress = TransferProgress(now, count)
        elif state == "body" and (
            self.flow.read_paused or self.cycle.waiting_for_100_continue
        ):
            self._progress.pause(passed)
        elif self._is_overdue(state, now, count):
            self._end(state)

    def _current_state(self) -> State:
        cycle = self.cycle
        if self._is_refused:
            return "refused"
        if self.transport.is_closing():
            return "closing"
        if cycle is not None and not cycle.response_complete:
            return "body" if cycle.more_body else "answer"
        if self.transport.get_write_buffer_size():
            return "closing"  # The response is complete, and not read yet.
        return "head" if cycle is None or self._is_in_head() else "idle"

    def _is_overdue(self, state: State, now: float, count: int) -> bool:
        limits = self._table.limits
        seconds = now - self._progress.started_at
        match state:
            case "head" if self._refusal is not None:
                return seconds >= limits.linger_seconds
            case "head":
                return seconds >= limits.head_seconds
            case "idle":
                return seconds >= limits.idle_seconds
            case "refused":
                return seconds >= limits.linger_seconds
            case "closing":
                return self._progress.is_slow(now, count, limits)
            case "body":
                received = count - self._progress.first
                is_late = seconds >= limits.body_seconds
                if is_late and received < seconds * limits.body_bytes_per_second:
                    return True
                return self._progress.is_slow(now, count, limits)
            case "answer":
                # `gateway.asgi.slow_clients` closes streams that clients do not read.
                return False

    def _end(self, state: State) -> None:
        if state != "refused":
            self._table.overdue.record(self.loop.time(), TIMEOUT_MESSAGES[state])
        if state in ("closing", "refused"):
            self.transport.abort()
        elif state == "idle" or not self._received:
            # Browsers open connections in advance, and expect no response on them.
            self.transport.close()
        else:
            self._refuse(refusals.REQUEST_TIMEOUT)

    # Refusals.

    def _refuse(self, refusal: Refusal) -> None:
        """Respond instead of the application, and discard further input.

        The connection stays open for a moment so that the client can read the response:
        the system resets a connection that is closed with unread bytes.
        """
        self._is_refused = True
        if refusal.status not in (408, 503):  # Those are counted elsewhere.
            self._table.malformed.record(self.loop.time(), refusal.message)
        can_respond = self._can_respond()
        self._disconnect_running()
        self.flow.resume_reading()
        if not can_respond:
            self.transport.close()
            return
        refused_requests.record_refusal(
            refusal, None if self._is_in_head() else self.cycle, self.client
        )
        headers = self.server_state.default_headers
        self.transport.write(refusals.build_response(refusal, headers))
        self.transport.write_eof()

    def _can_respond(self) -> bool:
        """Return whether the client awaits no other response before this one."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        is_of_this_request = cycle.scope is self.scope
        return is_of_this_request and not (cycle.response_started or self.pipeline)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket; uvicorn's pings detect clients that have disconnected."""

    def __init__(self, *args: Any, table: ConnectionTable, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table
        self._closing: TransferProgress | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.discard(self)
        super().connection_lost(exc)

    def check_timeout(self, now: float) -> None:
        """Reset a closing connection whose client does not read."""
        if not self.transport.is_closing():
            return
        count = self.transport.get_write_buffer_size()
        if self._closing is None:
            self._closing = TransferProgress(now, count)
        elif self._closing.is_slow(now, count, self._table.limits):
            self.transport.abort()


def protocol_options(limits: ConnectionLimits) -> dict[str, Any]:
    """Return the options of `uvicorn.Config` to enforce these limits in one process."""
    table = ConnectionTable(limits)
    return {
        "http": partial(HttpProtocol, table=table),
        "ws": partial(WebSocketProtocol, table=table),
        "timeout_keep_alive": limits.idle_seconds,
        # From any other address, uvicorn ignores `X-Forwarded-*`.
        "proxy_headers": bool(limits.trusted_proxies),
        "forwarded_allow_ips": [str(network) for network in limits.trusted_proxies],
    }
