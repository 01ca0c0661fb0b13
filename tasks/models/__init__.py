"""The table of tasks, with the rules of its rows."""

from tasks.models.queryset import (
    CLOSED,
    FAILED,
    HAS_FAILED,
    OPEN,
    TaskQuerySet,
    TaskState,
)
from tasks.models.task import Task
from tasks.queue.task_kinds import EXTRACTION

__all__ = [
    "CLOSED",
    "EXTRACTION",
    "FAILED",
    "HAS_FAILED",
    "OPEN",
    "Task",
    "TaskQuerySet",
    "TaskState",
]
