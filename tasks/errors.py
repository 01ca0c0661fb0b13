"""What can go wrong with a task."""

from core.errors import Conflict, CoulisseError, Denied, Invalid, Limited, NotFound


class TaskUnknown(NotFound):
    """There is no such task. Tasks are deleted a while after they ended, and those of \
others are not shown."""

    code = "task_not_found"


class TasksDisabled(Denied):
    """This server takes on no tasks."""

    code = "tasks_disabled"
    detail = "tasks.enabled is false in coulisse.yaml"


class TaskInvalid(Invalid):
    """This task cannot be taken on."""


class TooManyTasks(Limited):
    """You have too many tasks that have not ended. Wait for some, or cancel them."""

    code = "too_many_tasks"


class KeyReused(Conflict):
    """This Idempotency-Key came with another request before: send a new one."""

    code = "idempotency_key_reused"


class TaskTimedOut(CoulisseError):
    """An attempt took longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"timed out after {seconds:g} seconds", detail="tasks.timeout_seconds"
        )
