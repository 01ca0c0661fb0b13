"""The check of MCP servers by `coulisse doctor`."""

import asyncio
from collections.abc import Iterator

from django.core import checks

from config.sections import Config
from mcp_bridge import server_status
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.config import MCP
from mcp_bridge.errors import ServerFailed, SignInNeeded

SECONDS = 15.0


def check_servers(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Connect to each server; those with `command` are started and ended."""
    if config is not None and config.get(MCP):
        yield from asyncio.run(_check_all(config))


async def _check_all(config: Config) -> list[checks.CheckMessage]:
    pool = SessionPool()
    try:
        return await asyncio.gather(
            *(_check(config, name, pool) for name in config.get(MCP))
        )
    finally:
        await pool.close()


async def _check(config: Config, name: str, pool: SessionPool) -> checks.CheckMessage:
    if config.get(MCP)[name].sign_in is None:
        status = await server_status.query_status(config, name, pool=pool)
        if status.error is None:
            return checks.Info(f"{name}: {len(status.tools)} tools")
        return _failure(name, status.error)
    try:
        target = ServerTarget.shared(config, name)
        async with pool.session(target, wait_seconds=SECONDS):
            return checks.Info(f"{name}: reachable without a sign-in")
    except SignInNeeded:
        return checks.Info(f"{name}: reachable; each user signs in")
    except ServerFailed as exc:
        return _failure(name, str(exc))


def _failure(name: str, error: str) -> checks.CheckMessage:
    return checks.Error(
        f"{name}: {error}",
        hint=f"check mcp.{name}; agents go on without its tools",
    )
