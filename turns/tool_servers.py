"""This process's sessions with MCP servers, and its users' sign-ins to them."""

from config import live
from mcp_bridge import toolset
from mcp_bridge.pool import Pool
from mcp_bridge.sign_ins import SignIns
from turns import lane

POOL = Pool()
SIGN_INS = SignIns(lane.run, lane.run_to_end)


async def discover() -> None:
    """Look at the configured servers and log their tools; never raises."""
    await toolset.discover(live.current(), pool=POOL)


async def close() -> None:
    """End the sessions; called when the server stops."""
    await POOL.close()
    await SIGN_INS.close()
