"""Runs session tasks, which are synchronous and run on threads."""

from memory.extraction import extraction_handler
from memory.sessions import session_worker
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome


async def run(task: ClaimedTask) -> TaskOutcome:
    """Close the session of a task, and complete the task."""
    return await extraction_handler.run_on_thread(session_worker.run, task)
