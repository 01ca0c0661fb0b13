"""What agents need in a process that runs them for tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.skills import skill_registry
from config import live
from turns.structured_output import schema_workers
from turns.tools import mcp_sessions


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """Keep skills fresh, and close what agents have opened when the block is left."""
    skills = skill_registry.SkillWatcher(live.current())
    await asyncio.to_thread(skills.start)
    try:
        yield
    finally:
        await mcp_sessions.close_sessions()
        await schema_workers.close()
        await asyncio.to_thread(skills.stop)
