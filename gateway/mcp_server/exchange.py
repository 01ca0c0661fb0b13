"""One request of an MCP client and its response.

A fast response is plain JSON. A slow one, or one with notifications, becomes a stream
of server-sent events, so that proxies do not time out. Both generations of the protocol
allow either for any request.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCRequest

from api_base.json_responses import json_response
from core.text.sanitization import escape_and_truncate
from gateway.asgi.event_stream import EventStream

HEARTBEAT_SECONDS = 15.0
"""How long a stream stays silent before a keepalive."""

PING = b": ping\r\n\r\n"
MAX_MESSAGE_LENGTH = 500

REQUEST_CANCELLED = -32800
"""The JSON-RPC error of a request that its client cancelled, as in LSP."""


@dataclass(frozen=True, slots=True)
class JsonRpcResponse:
    """A JSON-RPC response and its HTTP status outside a stream."""

    body: dict[str, Any]
    status: int = 200


def jsonrpc_error(
    id: str | int | None, code: int, message: str, *, data: Any = None, status: int
) -> JsonRpcResponse:
    """Return a JSON-RPC error; the SDK's message may quote the request at any
    length."""
    error = {"code": code, "message": escape_and_truncate(message, MAX_MESSAGE_LENGTH)}
    if data is not None:
        error["data"] = _shorten(data)
    return JsonRpcResponse({"jsonrpc": "2.0", "id": id, "error": error}, status)


def _shorten(data: Any) -> Any:
    """Return data with each of its texts truncated as in responses."""
    if isinstance(data, str):
        return escape_and_truncate(data)
    if isinstance(data, dict):
        return {
            escape_and_truncate(str(key)): _shorten(value)
            for key, value in data.items()
        }
    return [_shorten(each) for each in data] if isinstance(data, list) else data


def http_response(response: JsonRpcResponse) -> HttpResponse:
    return json_response(response.body, status=response.status)


def error_response(
    id: str | int | None, code: int, message: str, *, data: Any = None, status: int
) -> HttpResponse:
    """Return a JSON-RPC error as a complete HTTP response."""
    return http_response(jsonrpc_error(id, code, message, data=data, status=status))


class McpExchange:
    """A request in progress, as the SDK's handlers see it.

    It is their `DispatchContext`: it sends their notifications to the client. Requests
    to the client are not supported.
    """

    can_send_request = False

    def __init__(self, request: HttpRequest, message: JSONRPCRequest) -> None:
        self.http = request
        self.message = message
        self.request_id = message.id
        self.transport = TransportContext(
            kind="streamable-http", can_send_request=False
        )
        self.message_metadata = ServerMessageMetadata(request_context=self)
        self.progress_token = progress_token_from_params(message.params)
        self.cancel_requested = anyio.Event()
        self.step = "waiting"
        """The current step, sent to clients that request progress."""
        self._streams = "text/event-stream" in request.headers.get("Accept", "")
        self._notifications: asyncio.Queue[bytes | None] = asyncio.Queue()
        """The notifications to send before the response, then None."""
        self._started = asyncio.get_running_loop().time()

    @property
    def wants_progress(self) -> bool:
        """Whether the client requested progress and can receive it."""
        return self._streams and self.progress_token is not None

    # The interface of the handlers.

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        """Refuse requests to the client: its response might reach another process."""
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        """Send a notification to the client, if it accepts streams."""
        if self._streams:
            self._notifications.put_nowait(_notification(method, params))

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send progress to the client, if requested."""
        if self.wants_progress:
            self._notifications.put_nowait(self._progress(progress, message))

    async def report_step(self, step: str) -> None:
        """Report the current step as progress."""
        self.step = step
        await self.progress(self._elapsed(), message=step)

    # The response.

    async def respond(
        self,
        handler: Awaitable[JsonRpcResponse],
        on_start: Callable[["asyncio.Task[JsonRpcResponse]"], None],
    ) -> HttpResponseBase:
        """Return the result of the handler, as JSON or as a stream.

        If the client disconnects, the handler is cancelled and awaited, since a turn
        stores its messages. `on_start` receives the task, so that others can cancel it.
        """
        task = asyncio.ensure_future(handler)
        on_start(task)
        task.add_done_callback(lambda _: self._notifications.put_nowait(None))
        request_task = asyncio.current_task()
        if request_task is not None:
            # The client may disconnect before its stream is first read.
            request_task.add_done_callback(lambda _: task.cancel())
        try:
            first = await self._next_frame()
        except asyncio.CancelledError:
            await _cancel_task(task)
            raise
        if first is None:
            return http_response(self._outcome(task))
        return EventStream(self._frames(first, task))

    async def _next_frame(self) -> bytes | None:
        """Return the next frame; None when the result is ready."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS if self._streams else None):
                return await self._notifications.get()
        except TimeoutError:
            return self._heartbeat()

    def _heartbeat(self) -> bytes:
        if self.progress_token is None:
            return PING
        return self._progress(self._elapsed(), self.step)

    def _progress(self, progress: float, message: str | None) -> bytes:
        params = {"progressToken": self.progress_token, "progress": progress}
        if message is not None:
            params["message"] = message
        return _notification("notifications/progress", params)

    def _elapsed(self) -> float:
        return round(asyncio.get_running_loop().time() - self._started, 3)

    async def _frames(
        self, first: bytes, task: "asyncio.Task[JsonRpcResponse]"
    ) -> AsyncGenerator[bytes]:
        frame: bytes | None = first
        try:
            while frame is not None:
                yield frame
                frame = await self._next_frame()
            yield _event(self._outcome(task).body)
        finally:
            await _cancel_task(task)

    def _outcome(self, task: "asyncio.Task[JsonRpcResponse]") -> JsonRpcResponse:
        if task.cancelled():
            return jsonrpc_error(
                self.request_id,
                REQUEST_CANCELLED,
                "The request was cancelled",
                status=200,
            )
        return task.result()


async def _cancel_task(task: "asyncio.Task[JsonRpcResponse]") -> None:
    task.cancel()  # Cancelling a finished task has no effect.
    await asyncio.wait((task,))


def _notification(method: str, params: Mapping[str, Any] | None) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        body["params"] = dict(params)
    return _event(body)


def _event(body: dict[str, Any]) -> bytes:
    return b"event: message\r\ndata: %b\r\n\r\n" % orjson.dumps(body)
