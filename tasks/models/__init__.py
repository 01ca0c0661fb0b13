"""The tables of tasks and of repeatable calls, with the rules of their rows."""

from tasks.models.call_receipts import CallReceipt
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
    "CallReceipt",
    "Task",
    "TaskQuerySet",
    "TaskState",
]
