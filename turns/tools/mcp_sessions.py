"""This process's sessions with MCP servers, and its users' sign-ins to them."""

from config import live
from mcp_bridge import toolset
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.oauth.token_manager import TokenManager

POOL = SessionPool()
TOKEN_MANAGER = TokenManager()


async def discover_tools() -> None:
    """List the tools of the configured servers and log them; never raises."""
    await toolset.discover_tools(live.current(), pool=POOL)


async def close_sessions() -> None:
    """End the sessions; called when the server stops."""
    await POOL.close()
    await TOKEN_MANAGER.close()
