"""Errors of tasks."""

from core.errors import Conflict, CoulisseError, Denied, Invalid, Limited, NotFound
from core.text import redaction
from database.errors import TurnDiscarded


class TaskUnknown(NotFound):
    """There is no such task. It may have expired, or belong to another user."""

    code = "task_not_found"


class TasksDisabled(Denied):
    """Tasks are disabled on this server."""

    code = "tasks_disabled"
    detail = "tasks.enabled is false in coulisse.yaml"


class TaskInvalid(Invalid):
    """This task is not valid."""


class TooManyTasks(Limited):
    """You have too many open tasks. Wait until some have ended, or cancel them."""

    code = "too_many_tasks"


class KeyReused(Conflict):
    """This Idempotency-Key was used for another request: send a new one."""

    code = "idempotency_key_reused"


class TaskTimedOut(CoulisseError):
    """An attempt exceeded its time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"timed out after {seconds:g} seconds", detail="tasks.timeout_seconds"
        )


class LeaseLost(TurnDiscarded):
    """This worker lost the task: it was erased, or another worker claimed it."""


class TaskNotEnded(Conflict):
    """This task has not ended: cancel it, or wait."""

    code = "task_not_ended"


class TaskNotRepeatable(Conflict):
    """This task is done, and tasks of its kind run only once."""

    code = "task_done"


def describe_error(error: BaseException) -> str:
    """Return the text that a task stores of an error; users see its public part."""
    if isinstance(error, CoulisseError):
        return redaction.redact_all(str(error))
    return f"{type(error).__name__}: see the server's log"
