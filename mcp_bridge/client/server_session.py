"""One session with a server: one task owns it, any task may call."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import mcp_types
from mcp import Client as McpClient
from mcp import MCPError
from mcp.client import ClientSession
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from core.runtime import request_ids, trace_context
from mcp_bridge.client import error_mapping, http_client, transports
from mcp_bridge.client.http_client import HttpOutcome
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import (
    CallRefused,
    ServerFailed,
    ServerGone,
    ServerSlow,
    ServerUnreachable,
    SignInNeeded,
)
from mcp_bridge.tools import catalog
from mcp_bridge.tools.catalog import CatalogTool

logger = logging.getLogger(__name__)

LIST_MAX_AGE_SECONDS = 300.0
"""The age after which a list is refreshed in the background."""
LIST_WAIT_SECONDS = 3.0
CLOSE_SECONDS = 5.0
PROBE_TIMEOUT_SECONDS = 5.0
"""The time for a child process to answer a ping after a call timed out."""
SUBSCRIBE_SECONDS = 1.0
SUBSCRIBE_RETRY_SECONDS = 30.0

CLIENT = mcp_types.Implementation(name="coulisse", version="1")
RESULT_ADAPTER: TypeAdapter[
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
] = TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)


class McpSession:
    """A session with one server, for one user or shared by all."""

    def __init__(
        self,
        target: ServerTarget,
        *,
        connect_seconds: float,
        is_legacy: bool = False,
        warn: Callable[[str], None],
    ) -> None:
        """`is_legacy` skips protocol negotiation for a server of the older protocol."""
        self.target = target
        self.is_legacy = is_legacy
        self.catalog_tools: tuple[CatalogTool, ...] = ()
        self._connect_seconds = connect_seconds
        self._warn = warn
        self._bearer = http_client.BearerAuth(target.token, target.renew)
        self._client: ClientSession | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end_event = asyncio.Event()
        self._end_reason = ""
        self._last_lines: Sequence[str] = ()
        self._is_subscribed = asyncio.Event()
        self._is_list_stale = False
        self._listed_at = 0.0
        self._refresh_task: asyncio.Task[None] | None = None
        self._probe_task: asyncio.Task[None] | None = None
        self._owner_task = asyncio.create_task(self._run(), name=f"mcp {target.name}")

    @property
    def is_open(self) -> bool:
        """Whether the session accepts calls, as far as known."""
        return self._client is not None and not self._end_event.is_set()

    @property
    def has_ended(self) -> bool:
        """Whether the session ended or is ending."""
        return self._end_event.is_set()

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses all of the user's tokens."""
        return self._bearer.is_refused

    @property
    def exit_error(self) -> ServerGone | None:
        """Why a child that had answered exited by itself."""
        is_child = self.target.server.command is not None
        had_answered = self._opened.done() and self._opened.exception() is None
        if not (is_child and had_answered and self._end_reason):
            return None
        error = self._ended_error()
        error.last_lines = self._last_lines
        return error

    async def wait_open(self) -> None:
        """Wait until the session is open; raise `ServerFailed` if it cannot open."""
        await asyncio.shield(self._opened)

    def update_token(self, target: ServerTarget) -> None:
        self._bearer.replace_token(target.token, target.renew)

    async def tools(self) -> tuple[CatalogTool, ...]:
        """Return the cached tools, or a new list if the server announced changes.

        Does not wait for a server that is slow to list them again.
        """
        if self._is_list_stale:
            with suppress(TimeoutError):
                async with asyncio.timeout(LIST_WAIT_SECONDS):
                    await asyncio.shield(self._start_refresh())
        elif time.monotonic() - self._listed_at > LIST_MAX_AGE_SECONDS:
            self._start_refresh()
        return self.catalog_tools

    async def call(
        self, tool: str, arguments: Mapping[str, Any]
    ) -> mcp_types.CallToolResult:
        """Call a tool under the server's own name for it.

        Calls run concurrently. Cancelling a caller cancels only its own call at the
        server. Raises subclasses of `ServerFailed`.
        """
        if self._client is None or self._end_event.is_set():
            raise self._ended_error(is_safe_to_retry=True)
        params = mcp_types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = mcp_types.CallToolRequest(params=params)
        outcome = HttpOutcome()
        token = http_client.http_outcome.set(outcome)
        limit = self.target.server.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                result = await self._send(self._client, request)
        except TimeoutError as exc:
            self._start_probe()
            message = f"did not answer within {limit:g} seconds (timeout_seconds)"
            raise self._error(ServerSlow, message) from exc
        except Exception as exc:
            raise self._map_exception(exc, outcome) from exc
        finally:
            http_client.http_outcome.reset(token)
        if isinstance(result, mcp_types.InputRequiredResult):
            message = "requested user input during the call, which is not supported"
            raise self._error(CallRefused, message)
        return result

    async def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """End the session, by force after the timeout, and wait until it is gone."""
        self._end_event.set()
        done, _ = await asyncio.wait([self._owner_task], timeout=timeout_seconds)
        if not done:
            self._owner_task.cancel()
            await asyncio.wait([self._owner_task], timeout=CLOSE_SECONDS)

    def abort(self, reason: str, last_lines: Sequence[str] = (), /) -> None:
        """End a session that is no longer usable."""
        if not self._end_event.is_set():
            self._end_reason, self._last_lines = reason, last_lines
            self._end_event.set()

    async def _send(
        self, client: ClientSession, request: mcp_types.CallToolRequest
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        try:
            return await client.send_request(request, RESULT_ADAPTER)
        except MCPError as exc:
            if exc.code != mcp_types.HEADER_MISMATCH:
                raise
        # The tool changed since it was listed: refresh the list and call again.
        await self._list_tools(client)
        return await client.send_request(request, RESULT_ADAPTER)

    # The owner task.

    async def _run(self) -> None:
        outcome = HttpOutcome()
        http_client.http_outcome.set(outcome)
        # It outlives the request that opened it.
        request_ids.current.set("")
        trace_context.current.set(None)
        try:
            async with asyncio.timeout(self._connect_seconds) as limit:
                async with (
                    self._build_client() as client,
                    anyio.create_task_group() as tasks,
                ):
                    self.is_legacy = (
                        client.protocol_version not in MODERN_PROTOCOL_VERSIONS
                    )
                    tasks.start_soon(self._follow_changes, client)
                    # So that no change is missed after the first list.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(SUBSCRIBE_SECONDS):
                            await self._is_subscribed.wait()
                    await self._list_tools(client.session)
                    limit.reschedule(None)
                    self._client = client.session
                    self._opened.set_result(None)
                    await self._end_event.wait()
                    tasks.cancel_scope.cancel()
        except asyncio.CancelledError:
            self._mark_ended(
                self._error(ServerUnreachable, "was closed before it answered")
            )
            raise
        except TimeoutError:
            seconds = self._connect_seconds
            message = f"did not answer within {seconds:g} seconds"
            self._mark_ended(self._error(ServerUnreachable, message))
        except Exception as exc:  # Any exception ends only this session.
            logger.debug("mcp server '%s': %r", self.target.name, exc)
            self._mark_ended(self._opening_error(exc, outcome))
        finally:
            self._mark_ended(self._ended_error())
            for task in (self._refresh_task, self._probe_task):
                if task is not None:
                    task.cancel()

    def _mark_ended(self, error: ServerFailed) -> None:
        self._client = None
        self._end_event.set()
        if not self._opened.done():
            self._opened.set_exception(error)
            # The future may have no waiter.
            self._opened.exception()

    def _build_client(self) -> McpClient:
        return McpClient(
            catalog.drop_invalid_tools(
                transports.open_transport(self.target, self._bearer, self.abort),
                self._warn,
            ),
            cache=None,
            client_info=CLIENT,
            message_handler=self._handle_message,
            mode="legacy" if self.is_legacy else "auto",
        )

    async def _follow_changes(self, client: McpClient) -> None:
        """Follow tool changes of a server with the newer protocol."""
        tools = client.server_capabilities.tools
        if self.is_legacy or tools is None or not tools.list_changed:
            self._is_subscribed.set()
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._is_subscribed.set()
                    async for change in changes:
                        if isinstance(change, ToolsListChanged):
                            self._is_list_stale = True
            except (MCPError, SubscriptionLost, TimeoutError):
                logger.debug("mcp server '%s' announces no changes", self.target.name)
            self._is_subscribed.set()
            # The tools may have changed before the subscription.
            await asyncio.sleep(SUBSCRIBE_RETRY_SECONDS)
            self._is_list_stale = True

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._is_list_stale = True

    # Listing.

    def _start_refresh(self) -> asyncio.Task[None]:
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = asyncio.create_task(self._refresh_list())
        return self._refresh_task

    async def _refresh_list(self) -> None:
        """Refresh the list; after a failure the old one stays for a while."""
        client = self._client
        if client is None:
            return
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self._list_tools(client)
        except Exception as exc:  # Any failure of the server.
            self._listed_at = time.monotonic()
            self._warn(f"its tools could not be refreshed: {type(exc).__name__}")
            if error_mapping.is_closed(exc):
                self.abort("closed the connection")

    def _start_probe(self) -> None:
        """Ping a child that did not answer."""
        is_probing = self._probe_task is not None and not self._probe_task.done()
        if self.target.server.kind == "stdio" and not is_probing:
            self._probe_task = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await catalog.list_tools(client, self._warn)
        except TimeoutError:
            # The child hangs, or works for no caller: start another.
            self.abort("stopped answering")
        except Exception as exc:  # Any answer is enough.
            logger.debug("mcp server '%s': %r", self.target.name, exc)

    async def _list_tools(self, client: ClientSession) -> None:
        self._is_list_stale = False
        self.catalog_tools = await catalog.list_tools(client, self._warn)
        self._listed_at = time.monotonic()

    # Error mapping.

    def _opening_error(self, exc: Exception, outcome: HttpOutcome) -> ServerFailed:
        cause = error_mapping.root_cause(exc)
        if isinstance(cause, ServerFailed):
            return cause
        if self._end_reason and outcome.status is None and not outcome.reason:
            error = self._error(ServerUnreachable, self._end_reason)
            error.last_lines = self._last_lines
            return error
        error = self._map_exception(cause, outcome)
        if isinstance(error, SignInNeeded):
            return error
        return ServerUnreachable(
            error.message, server=self.target.name, detail=error.detail
        )

    def _map_exception(self, exc: Exception, outcome: HttpOutcome) -> ServerFailed:
        """Map an exception of the SDK; end the session if it is over."""
        if isinstance(exc, ServerFailed):
            return exc
        ended = None if outcome.is_too_large else self._find_end(exc, outcome)
        return ended or error_mapping.from_exception(exc, outcome, self.target)

    def _find_end(self, exc: Exception, outcome: HttpOutcome) -> ServerGone | None:
        if outcome.reason:
            return self._ended_error(
                outcome.reason, is_safe_to_retry=not outcome.was_sent
            )
        status = error_mapping.status_of(exc, outcome)
        if status == 404 and self._client is not None:
            # The server forgot the session, usually because it restarted.
            self.abort("lost the session")
            return self._ended_error(is_safe_to_retry=True)
        if status is None and error_mapping.is_closed(exc):
            self.abort("closed the connection")
            return self._ended_error()
        return None

    def _ended_error(
        self, reason: str = "", *, is_safe_to_retry: bool = False
    ) -> ServerGone:
        reason = reason or self._end_reason or "closed the connection"
        message = f"the MCP server '{self.target.name}' {reason}"
        return ServerGone(
            message, server=self.target.name, is_safe_to_retry=is_safe_to_retry
        )

    def _error(self, kind: type[ServerFailed], text: str) -> ServerFailed:
        return error_mapping.server_error(kind, self.target, text)
