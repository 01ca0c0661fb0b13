"""What Celery's `inspect`, events and Flower show of a running task: its row."""

from typing import Any, Literal

from celery import Task
from celery.worker import state
from celery.worker.request import Request

from core.ids import pseudonym
from core.runtime import shared_clock
from tasks.queue.claimed_task import ClaimedTask


class JobRequest(Request):
    """A message that the worker has received."""

    def maybe_expire(self) -> Literal[True] | None:
        """Revoke it if it has expired, by the time that its sender shares."""
        if not self.expires or shared_clock.now() <= self.expires:
            return None
        state.revoked.add(self.id)
        return True


class RowRequest(JobRequest):
    """The same, and the row that it runs."""

    row: dict[str, Any] | None = None

    def info(self, safe: bool = False) -> Any:
        """Return what `inspect active` prints."""
        info: dict[str, Any] = {**super().info(safe=safe)}
        return info if self.row is None else {**info, "kwargs": self.row}


class RowTask(Task[Any, Any]):
    """A Celery task that runs one row per execution."""

    Request = "tasks.worker.celery_requests:RowRequest"

    @staticmethod
    def show_row(request_id: str, task: ClaimedTask) -> None:
        """Show a row as the arguments of an execution; callable from any thread."""
        request = state.requests.get(request_id)
        if isinstance(request, RowRequest):
            request.row = {
                "task": str(task.id),
                "agent": task.agent,
                "user": pseudonym(task.user_id),
                "attempt": task.attempts,
            }
            # A second event of this type updates the first.
            request.send_event("task-started", kwargs=repr(request.row))
