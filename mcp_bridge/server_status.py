"""What a process knows of the servers of tools: which they offer, and what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from config.sections import Config
from mcp_bridge.client.session_pool import Pool
from mcp_bridge.client.target import Address
from mcp_bridge.config import MCP
from mcp_bridge.errors import ServerFailed
from mcp_bridge.tools.catalog import Offer

PATIENCE_SECONDS = 15.0
"""For somebody who asks; a server may have to be fetched before it starts."""


@dataclass(frozen=True, slots=True)
class Look:
    """One server as this process has seen it."""

    state: Literal["open", "idle", "failed"]
    """`idle`: nobody has used it lately, or those who did are signed in to it."""
    sessions: int
    tools: Sequence[Offer]
    error: str | None = None
    last_lines: Sequence[str] = ()
    """What one that failed, or ended by itself, printed last, without secrets."""


async def all_known(config: Config, *, pool: Pool) -> dict[str, Look]:
    """Return what this event loop knows of every server, without asking any."""
    return {name: _known(name, pool) for name in config.get(MCP)}


def _known(name: str, pool: Pool) -> Look:
    sessions, error = pool.open_sessions(name)
    if sessions:
        return Look("open", len(sessions), max((s.offers for s in sessions), key=len))
    if error is not None:
        return _failed(error)
    return Look("idle", 0, ())


async def look(config: Config, name: str, *, pool: Pool) -> Look:
    """Ask a server what it offers; one with sign-in is not asked, but by its users.

    One that failed a moment ago is tried again.
    """
    server = config.get(MCP)[name]
    if server.sign_in is None:
        address = Address(name, server, config.path.absolute().parent)
        pool.clear_failure(address)
        try:
            async with pool.session(
                address, patience_seconds=PATIENCE_SECONDS
            ) as session:
                await session.tools()
        except ServerFailed as exc:
            return _failed(exc)
    return _known(name, pool)


def _failed(error: ServerFailed) -> Look:
    return Look("failed", 0, (), str(error), error.last_lines)


def told(look: Look) -> dict[str, Any]:
    """Return it as JSON has it."""
    return {
        "state": look.state,
        "sessions": look.sessions,
        "error": look.error,
        "last_lines": list(look.last_lines),
        "tools": [
            {
                "name": offer.name,
                "description": offer.description,
                "parameters": offer.parameters,
                "is_read_only": offer.is_read_only,
            }
            for offer in look.tools
        ],
    }
