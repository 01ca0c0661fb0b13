"""Resources that agents need in a worker process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.skills import skill_registry
from config import live
from turns.structured_output import schema_worker_pool
from turns.tools import mcp_sessions


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """Keep skills up to date, and close what agents opened when the block ends."""
    skills = skill_registry.SkillWatcher(live.current())
    await asyncio.to_thread(skills.start)
    try:
        yield
    finally:
        await mcp_sessions.close_sessions()
        await schema_worker_pool.close()
        await asyncio.to_thread(skills.stop)
