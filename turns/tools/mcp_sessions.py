"""This process's sessions with MCP servers, and its users' sign-ins to them."""

from config import live
from database import database_executor
from mcp_bridge import toolset
from mcp_bridge.client.session_pool import Pool
from mcp_bridge.oauth.token_manager import SignIns

POOL = Pool()
SIGN_INS = SignIns(database_executor.run, database_executor.run_to_end)


async def discover() -> None:
    """Look at the configured servers and log their tools; never raises."""
    await toolset.discover(live.current(), pool=POOL)


async def close() -> None:
    """End the sessions; called when the server stops."""
    await POOL.close()
    await SIGN_INS.close()
