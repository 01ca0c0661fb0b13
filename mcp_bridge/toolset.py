"""The MCP tools of an agent's turn, and the discovery of all servers at start."""

import asyncio
import hashlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from config.sections import Config
from core.ids import UserId
from core.tools import Tool, ToolResult
from core.trace import TracedToolCall
from core.validation import tool_names
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.config import MCP
from mcp_bridge.errors import ServerFailed, ServerGone, SignInNeeded
from mcp_bridge.oauth.errors import SignInFailed
from mcp_bridge.oauth.token_manager import TokenManager
from mcp_bridge.tools import catalog, result_conversion
from mcp_bridge.tools.catalog import CatalogTool

logger = logging.getLogger(__name__)

CreateLink = Callable[[], str]
"""Creates a new link at which the user connects a server."""

NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}
DIGEST_LENGTH = 8
MAX_NAMES_LOGGED = 30
TIMEOUT_SECONDS = 5.0
"""How long a user waits for a server; a slower one is available in their next turn."""


@dataclass(frozen=True)
class ServerGrant:
    """The tools of a server that an agent may use."""

    server: str
    only: tuple[str, ...] | None
    """The server's tool names; None grants all tools."""


async def open_tools(
    config: Config,
    grants: Sequence[ServerGrant],
    user_id: UserId,
    *,
    pool: SessionPool,
    credentials: TokenManager,
    is_interactive: bool = True,
) -> list[Tool]:
    """Return the tools that an agent may call in this user's turn.

    An unreachable server, or one without the user's sign-in, is replaced by a tool that
    reports this; neither raises. Names are valid for providers and unique. With open
    sessions this does not wait, except for the tokens of servers with sign-in; for a
    slow server it waits only briefly, unless the turn runs in the background.
    """
    pool.apply_config(config)
    wait_seconds = TIMEOUT_SECONDS if is_interactive else math.inf
    granted_servers = await _open_servers(
        config, grants, user_id, pool, credentials, wait_seconds
    )
    if len(granted_servers) == 1:
        found = [await granted_servers[0].tools()]
    else:
        found = await asyncio.gather(*(server.tools() for server in granted_servers))
    tools = [tool for group in found for tool in group]
    names = assign_names([(tool.target, tool.name) for tool in tools])
    return [
        tool if tool.name == name else replace(tool, name=name)
        for tool, name in zip(tools, names, strict=True)
    ]


def assign_names(tools: Sequence[tuple[str, str]]) -> list[str]:
    """Return a unique name for each tool of a server, given as (server, name).

    The tool's own name, adapted to providers' rules. Two equal names both get their
    server's name as a prefix; if that does not suffice, a hash as a suffix. A name
    depends only on the offered tools, so it is stable from turn to turn.
    """
    short = [tool_names.to_safe_name(name) for _, name in tools]
    counts = Counter(short)
    prefixed = [
        name if counts[name] == 1 else tool_names.to_safe_name(f"{server}_{original}")
        for name, (server, original) in zip(short, tools, strict=True)
    ]
    counts = Counter(prefixed)
    return [
        name if counts[name] == 1 else _with_hash(name, *tool)
        for name, tool in zip(prefixed, tools, strict=True)
    ]


def _with_hash(name: str, server: str, original: str) -> str:
    digest = hashlib.sha256(f"{server}\0{original}".encode()).hexdigest()
    prefix_length = tool_names.MAX_LENGTH - DIGEST_LENGTH - 1
    return f"{name[:prefix_length]}_{digest[:DIGEST_LENGTH]}"


async def discover_tools(config: Config, *, pool: SessionPool) -> None:
    """Query every server without sign-in: log its tools, or its failure."""
    pool.apply_config(config)
    await asyncio.gather(
        *(
            _log_tools(ServerTarget.shared(config, name), pool)
            for name, server in config.get(MCP).items()
            if server.sign_in is None
        )
    )


async def _log_tools(server_target: ServerTarget, pool: SessionPool) -> None:
    try:
        async with pool.session(server_target) as session:
            catalog_tools = await session.tools()
    except ServerFailed as exc:
        logger.warning("%s; agents run without its tools until it answers", exc)
        return
    names = [catalog.printable_name(tool.name) for tool in catalog_tools]
    more = len(names) - MAX_NAMES_LOGGED
    logger.info(
        "mcp server '%s' offers %d tool%s: %s%s",
        server_target.name,
        len(names),
        "" if len(names) == 1 else "s",
        ", ".join(names[:MAX_NAMES_LOGGED]) or "none",
        f" and {more} more" if more > 0 else "",
    )


async def _open_servers(
    config: Config,
    grants: Sequence[ServerGrant],
    user_id: UserId,
    pool: SessionPool,
    credentials: TokenManager,
    wait_seconds: float,
) -> "list[_GrantedServer]":
    servers = config.get(MCP)
    granted = {grant.server: grant for grant in grants if grant.server in servers}
    with_sign_in = [name for name in granted if servers[name].sign_in is not None]
    tokens: Mapping[str, str | SignInFailed] = {}
    if with_sign_in:
        tokens = await credentials.tokens(config, with_sign_in, user_id)

    def open_server(name: str, grant: ServerGrant) -> _GrantedServer:
        token, error = tokens.get(name), None
        if isinstance(token, SignInFailed):
            token, error = None, token
        target = ServerTarget.shared(config, name)
        if target.server.sign_in is not None:
            renew = partial(credentials.renew, config, name, user_id)
            target = replace(target, user_id=user_id, token=token, renew=renew)
        link = partial(credentials.link, config, name, user_id)
        return _GrantedServer(grant, target, error, pool, link, wait_seconds)

    return [open_server(name, grant) for name, grant in granted.items()]


@dataclass(frozen=True, slots=True)
class _GrantedServer:
    """A granted server, for the user of this turn."""

    grant: ServerGrant
    server_target: ServerTarget
    sign_in_error: SignInFailed | None
    """Why a connected user has no token at the moment."""
    pool: SessionPool
    link: CreateLink
    wait_seconds: float

    async def tools(self) -> "list[ServerTool | UnavailableTool]":
        """Return the server's tools, or a fallback."""
        if self.sign_in_error is not None:
            return [self._unreachable(self.sign_in_error)]
        if self.server_target.user_id is not None and self.server_target.token is None:
            return self._sign_in_tools()
        try:
            async with self.pool.session(
                self.server_target, wait_seconds=self.wait_seconds
            ) as session:
                if session.is_refused:
                    return self._sign_in_tools()
                catalog_tools = await session.tools()
        except SignInNeeded:
            return self._sign_in_tools()
        except ServerFailed as exc:
            return [self._unreachable(exc)]
        return [
            ServerTool(
                name=tool.name,
                target=self.server_target.name,
                description=tool.description,
                parameters=tool.parameters,
                server_name=tool.name,
                is_read_only=tool.is_read_only,
                server_target=self.server_target,
                pool=self.pool,
                link=self.link,
            )
            for tool in self._allowed(catalog_tools)
        ]

    def _allowed(self, catalog_tools: Sequence[CatalogTool]) -> Sequence[CatalogTool]:
        only = self.grant.only
        if only is None:
            return catalog_tools
        names = {tool.name for tool in catalog_tools}
        for name in only:
            if name not in names:
                self.pool.warn_once(
                    self.server_target,
                    f"has no tool '{name}', which an agent lists under only:",
                )
        return [tool for tool in catalog_tools if tool.name in only]

    def _sign_in_tools(self) -> "list[ServerTool | UnavailableTool]":
        server = self.server_target.name
        if self.grant.only is None:
            description = (
                f"Connects the user's account with '{server}'. Call it when the user "
                f"wants to use {server}: it returns a link for them to open. After "
                "that, the tools of that server replace this one."
            )
            return [self._unavailable_tool(f"connect_{server}", description)]
        description = (
            f"A tool of '{server}', which the user has not connected yet. Call it to "
            "get a link for them to open. After that, its arguments are available."
        )
        return [self._unavailable_tool(name, description) for name in self.grant.only]

    def _unreachable(self, exc: ServerFailed) -> "UnavailableTool":
        server = self.server_target.name
        reason = (
            f"The tools of the MCP server '{server}' are not available now: "
            f"{exc.message}. Do not call this tool; tell the user if they need it."
        )
        return self._unavailable_tool(f"{server}_unreachable", reason, reason)

    def _unavailable_tool(
        self, name: str, description: str, reason: str | None = None
    ) -> "UnavailableTool":
        target = self.server_target.name
        return UnavailableTool(name, target, description, reason, self.link)


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server, for one user."""

    name: str
    target: str
    description: str
    parameters: Mapping[str, Any]
    server_name: str
    """The server's name of the tool."""
    server_target: ServerTarget
    pool: SessionPool
    link: CreateLink
    is_read_only: bool = False
    """Whether the server declares the tool as read-only."""
    kind: Literal["mcp"] = "mcp"

    async def call(
        self, arguments: Mapping[str, Any], record: TracedToolCall
    ) -> ToolResult:
        """Call the tool at the server; return a sign-in link if required."""
        try:
            try:
                return await self._call(arguments)
            except ServerGone as exc:
                if not exc.is_safe_to_retry:
                    raise
            # The session ended before the call began: retry with a new one.
            return await self._call(arguments)
        except SignInNeeded:
            return sign_in_message(self.target, self.link())

    async def _call(self, arguments: Mapping[str, Any]) -> ToolResult:
        async with self.pool.session(self.server_target) as session:
            result = await session.call(self.server_name, arguments)
        return result_conversion.convert_result(result, self.target)


@dataclass(frozen=True, slots=True)
class UnavailableTool:
    """Replaces tools that cannot be called, and reports the reason."""

    name: str
    target: str
    description: str
    reason: str | None
    """Its result; None returns a sign-in link."""
    link: CreateLink
    kind: Literal["mcp"] = "mcp"
    parameters: Mapping[str, Any] = field(default_factory=lambda: NO_ARGUMENTS)

    async def call(
        self, arguments: Mapping[str, Any], record: TracedToolCall
    ) -> ToolResult:
        """Return the reason why the tools are unavailable."""
        if self.reason is None:
            return sign_in_message(self.target, self.link())
        return self.reason


def sign_in_message(server: str, link: str) -> str:
    """Return the message for the model if the user has not signed in to a server."""
    return (
        f"Not connected: the user has not authorized access to the '{server}' MCP "
        "server. Show them this link and ask them to open it to connect their account. "
        "The link works once and only for this user; do not share it with anyone else: "
        f"{link}"
    )
