"""Handler of extraction tasks, which are synchronous and run on threads."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from memory.extraction import extraction_worker
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome

MAX_THREADS = 64
"""More than run at a time, because a cancelled extraction keeps its thread for a while.
"""

_threads = ThreadPoolExecutor(MAX_THREADS, "extraction")


async def run(task: ClaimedTask) -> TaskOutcome:
    """Extract facts from the turn of a task, and complete the task."""
    return await run_on_thread(extraction_worker.run, task)


async def run_on_thread(
    work: Callable[[ClaimedTask], None], task: ClaimedTask
) -> TaskOutcome:
    """Run synchronous work that completes its task itself."""
    await asyncio.get_running_loop().run_in_executor(
        _threads, contextvars.copy_context().run, work, task
    )
    return TaskOutcome(is_closed=True)
