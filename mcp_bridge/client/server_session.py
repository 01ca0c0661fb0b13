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

from core.runtime import request_ids
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

LIST_TIMEOUT_SECONDS = 300.0
"""The age after which a list is refreshed in the background."""
LIST_RETRY_SECONDS = 3.0
CLOSE_SECONDS = 5.0
PROBE_TIMEOUT_SECONDS = 5.0
"""The time for a child process to answer a ping after a call timed out."""
FOLLOW_SECONDS = 1.0
LISTEN_RETRY_SECONDS = 30.0

CLIENT = mcp_types.Implementation(name="coulisse", version="1")
RESULT_ADAPTER: TypeAdapter[
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
] = TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)


class McpSession:
    """A session with one server, for one user or shared by all."""

    def __init__(
        self,
        address: ServerTarget,
        *,
        connect_seconds: float,
        is_legacy: bool = False,
        warn: Callable[[str], None],
    ) -> None:
        """`is_legacy` skips protocol negotiation for a server of the older protocol."""
        self.address = address
        self.is_legacy = is_legacy
        self.offers: tuple[CatalogTool, ...] = ()
        self._connect_seconds = connect_seconds
        self._warn = warn
        self._bearer = http_client.BearerAuth(address.token, address.renew)
        self._client: ClientSession | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._end_reason = ""
        self._last_lines: Sequence[str] = ()
        self._is_following = asyncio.Event()
        self._is_listing_old = False
        self._listed_at = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._doubting: asyncio.Task[None] | None = None
        self._owner = asyncio.create_task(self._run(), name=f"mcp {address.name}")

    @property
    def is_open(self) -> bool:
        """Whether the session accepts calls, as far as known."""
        return self._client is not None and not self._ending.is_set()

    @property
    def has_ended(self) -> bool:
        """Whether the session ended or is ending."""
        return self._ending.is_set()

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses all of the user's tokens."""
        return self._bearer.is_refused

    @property
    def exit_error(self) -> ServerGone | None:
        """Why a child that had answered exited by itself."""
        is_child = self.address.server.command is not None
        had_answered = self._ready.done() and self._ready.exception() is None
        if not (is_child and had_answered and self._end_reason):
            return None
        error = self._gone()
        error.last_lines = self._last_lines
        return error

    async def wait_open(self) -> None:
        """Wait until the session is open; raise `ServerFailed` if it cannot open."""
        await asyncio.shield(self._ready)

    def update_token(self, address: ServerTarget) -> None:
        """Use the user's current token."""
        self._bearer.replace_token(address.token, address.renew)

    async def tools(self) -> tuple[CatalogTool, ...]:
        """Return the cached tools, or a new list if the server announced changes.

        Does not wait for a server that is slow to list them again.
        """
        if self._is_listing_old:
            with suppress(TimeoutError):
                async with asyncio.timeout(LIST_RETRY_SECONDS):
                    await asyncio.shield(self._start_listing())
        elif time.monotonic() - self._listed_at > LIST_TIMEOUT_SECONDS:
            self._start_listing()
        return self.offers

    async def call(
        self, tool: str, arguments: Mapping[str, Any]
    ) -> mcp_types.CallToolResult:
        """Call a tool under the server's own name for it.

        Calls run concurrently. Cancelling a caller cancels only its own call at the
        server. Raises subclasses of `ServerFailed`.
        """
        if self._client is None or self._ending.is_set():
            raise self._gone(is_safe_to_retry=True)
        params = mcp_types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = mcp_types.CallToolRequest(params=params)
        current = HttpOutcome()
        token = http_client.http_outcome.set(current)
        limit = self.address.server.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                answer = await self._send(self._client, request)
        except TimeoutError as exc:
            self._start_probe()
            message = f"did not answer within {limit:g} seconds (timeout_seconds)"
            raise self._error(ServerSlow, message) from exc
        except Exception as exc:
            raise self._map_exception(exc, current) from exc
        finally:
            http_client.http_outcome.reset(token)
        if isinstance(answer, mcp_types.InputRequiredResult):
            message = "requested user input during the call, which is not supported"
            raise self._error(CallRefused, message)
        return answer

    async def close(self, patience_seconds: float = CLOSE_SECONDS) -> None:
        """End the session, by force after the timeout, and wait until it is gone."""
        self._ending.set()
        done, _ = await asyncio.wait([self._owner], timeout=patience_seconds)
        if not done:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=CLOSE_SECONDS)

    def break_off(self, reason: str, last_lines: Sequence[str] = (), /) -> None:
        """End a session that is no longer usable."""
        if not self._ending.is_set():
            self._end_reason, self._last_lines = reason, last_lines
            self._ending.set()

    async def _send(
        self, client: ClientSession, request: mcp_types.CallToolRequest
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        try:
            return await client.send_request(request, RESULT_ADAPTER)
        except MCPError as exc:
            if exc.code != mcp_types.HEADER_MISMATCH:
                raise
        # The tool changed since it was listed: refresh the list and call again.
        await self._read_listing(client)
        return await client.send_request(request, RESULT_ADAPTER)

    # The owner task.

    async def _run(self) -> None:
        opening = HttpOutcome()
        http_client.http_outcome.set(opening)
        request_ids.current.set("")  # It outlives the request that opened it.
        try:
            async with asyncio.timeout(self._connect_seconds) as limit:
                async with (
                    self._make_client() as client,
                    anyio.create_task_group() as tasks,
                ):
                    self.is_legacy = (
                        client.protocol_version not in MODERN_PROTOCOL_VERSIONS
                    )
                    tasks.start_soon(self._follow_changes, client)
                    await self._wait_for_subscription()
                    await self._read_listing(client.session)
                    limit.reschedule(None)
                    self._begin(client.session)
                    await self._ending.wait()
                    tasks.cancel_scope.cancel()
        except asyncio.CancelledError:
            self._end(self._error(ServerUnreachable, "was closed before it answered"))
            raise
        except TimeoutError:
            seconds = self._connect_seconds
            message = f"did not answer within {seconds:g} seconds"
            self._end(self._error(ServerUnreachable, message))
        except Exception as exc:  # Any exception ends only this session.
            logger.debug("mcp server '%s': %r", self.address.name, exc)
            self._end(self._opening_error(exc, opening))
        finally:
            self._end(self._gone())
            for task in (self._listing, self._doubting):
                if task is not None:
                    task.cancel()

    def _begin(self, client: ClientSession) -> None:
        self._client = client
        self._ready.set_result(None)

    def _end(self, error: ServerFailed) -> None:
        self._client = None
        self._ending.set()
        if not self._ready.done():
            self._ready.set_exception(error)
            # The future may have no waiter.
            self._ready.exception()

    def _make_client(self) -> McpClient:
        return McpClient(
            catalog.drop_invalid_tools(
                transports.open_transport(self.address, self._bearer, self.break_off),
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
            self._is_following.set()
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._is_following.set()
                    async for change in changes:
                        if isinstance(change, ToolsListChanged):
                            self._is_listing_old = True
            except (MCPError, SubscriptionLost, TimeoutError):
                logger.debug("mcp server '%s' announces no changes", self.address.name)
            self._is_following.set()
            # The tools may have changed before the subscription.
            await asyncio.sleep(LISTEN_RETRY_SECONDS)
            self._is_listing_old = True

    async def _wait_for_subscription(self) -> None:
        """Wait for the subscription: no change is missed after the first list."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FOLLOW_SECONDS):
                await self._is_following.wait()

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._is_listing_old = True

    # Listing.

    def _start_listing(self) -> asyncio.Task[None]:
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._list_again())
        return self._listing

    async def _list_again(self) -> None:
        """Refresh the list; after a failure the old one stays for a while."""
        client = self._client
        if client is None:
            return
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self._read_listing(client)
        except Exception as exc:  # Any failure of the server.
            self._listed_at = time.monotonic()
            self._warn(f"its tools could not be refreshed: {type(exc).__name__}")
            if error_mapping.is_closed(exc):
                self.break_off("closed the connection")

    def _start_probe(self) -> None:
        """Ping a child that did not answer."""
        is_doubting = self._doubting is not None and not self._doubting.done()
        if self.address.server.kind == "stdio" and not is_doubting:
            self._doubting = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await catalog.list_tools(client, self._warn)
        except TimeoutError:
            # The child hangs, or works for no caller: start another.
            self.break_off("stopped answering")
        except Exception as exc:  # Any answer is enough.
            logger.debug("mcp server '%s': %r", self.address.name, exc)

    async def _read_listing(self, client: ClientSession) -> None:
        self._is_listing_old = False
        self.offers = await catalog.list_tools(client, self._warn)
        self._listed_at = time.monotonic()

    # Error mapping.

    def _opening_error(self, exc: Exception, opening: HttpOutcome) -> ServerFailed:
        """Return the error that prevented the session."""
        cause = error_mapping.root_cause(exc)
        if isinstance(cause, ServerFailed):
            return cause
        if self._end_reason and opening.status is None and not opening.reason:
            error = self._error(ServerUnreachable, self._end_reason)
            error.last_lines = self._last_lines
            return error
        meaning = self._map_exception(cause, opening)
        if isinstance(meaning, SignInNeeded):
            return meaning
        return ServerUnreachable(
            meaning.message, server=self.address.name, detail=meaning.detail
        )

    def _map_exception(self, exc: Exception, current: HttpOutcome) -> ServerFailed:
        """Map an exception of the SDK; end the session if it is over."""
        if isinstance(exc, ServerFailed):
            return exc
        gone = None if current.is_too_large else self._gone_error(exc, current)
        return gone or error_mapping.from_exception(exc, current, self.address)

    def _gone_error(self, exc: Exception, current: HttpOutcome) -> ServerGone | None:
        if current.reason:
            return self._gone(current.reason, is_safe_to_retry=not current.was_sent)
        status = error_mapping.status_of(exc, current)
        if status == 404 and self._client is not None:
            # The server forgot the session, usually because it restarted.
            self.break_off("lost the session")
            return self._gone(is_safe_to_retry=True)
        if status is None and error_mapping.is_closed(exc):
            self.break_off("closed the connection")
            return self._gone()
        return None

    def _gone(self, reason: str = "", *, is_safe_to_retry: bool = False) -> ServerGone:
        reason = reason or self._end_reason or "closed the connection"
        message = f"the MCP server '{self.address.name}' {reason}"
        return ServerGone(
            message, server=self.address.name, is_safe_to_retry=is_safe_to_retry
        )

    def _error(self, kind: type[ServerFailed], says: str) -> ServerFailed:
        return error_mapping.server_error(kind, self.address, says)
