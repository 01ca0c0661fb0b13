"""Background tasks: find, view, cancel and retry them."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from access.users import identity
from config import live
from core.errors import Invalid
from core.ids import UserId
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView
from tasks.errors import TaskUnknown
from tasks.models import Task as Row
from tasks.queue import lifecycle, task_kinds, worker_notifier
from tasks.reports import operator_view, task_ids, task_queries
from tasks.submission import manual_retry
from turns.preparation import routing

TASKS_URL = "/admin/tasks"
CLOSED_STATES = {state.value for state in lifecycle.CLOSED}


class StudioTask(BaseModel):
    """A background task."""

    id: uuid.UUID
    object: Literal["task"] = "task"
    kind: str
    state: Literal["queued", "running", "done", "errored", "cancelled"]
    user_id: uuid.UUID
    agent: str
    prompt: str
    result: str | None
    error: str | None
    cancel_requested: bool
    priority: int
    attempts: int
    retries: int
    origin: str
    metadata: dict[str, str] | None
    turn_id: uuid.UUID | None
    cost_usd: float | None
    request_id: str | None
    worker: str | None
    due_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class StudioTaskList(BaseModel):
    """A page of tasks, newest first; long texts are truncated."""

    object: Literal["list"] = "list"
    data: list[StudioTask]
    has_more: bool
    last_id: str | None


class TaskListView(StudioView):
    """`/admin/tasks`."""

    title = "Tasks"
    template = "studio/operations/tasks.html"

    @extend_schema(
        summary="List tasks",
        parameters=[
            OpenApiParameter("state", str, enum=Row.State.values),
            OpenApiParameter("kind", str, description="`agent`, `judge`, …"),
            OpenApiParameter("agent", str, description="The name of an agent."),
            OpenApiParameter(
                "user", str, description="The name, as clients send it, or the UUID."
            ),
            OpenApiParameter("after", str, description="The last_id of a page."),
            OpenApiParameter("limit", int, description="50 by default, at most 500."),
        ],
        responses=StudioTaskList,
    )
    def get(self, request: Request) -> Response:
        """List background tasks, newest first."""
        query = request.query_params
        rows, has_more = task_queries.page_tasks(
            user_id=_parse_user(query.get("user", "")),
            is_all=True,
            states=query_choices("state", query.get("state"), Row.State.values),
            agent=query.get("agent") or None,
            kind=next(
                iter(query_choices("kind", query.get("kind"), task_kinds.names())), None
            ),
            after=parse_cursor(query.get("after"), uuid.UUID),
            limit=self.query_int("limit", default=50, maximum=500),
        )
        last = (rows[-1].created_at, rows[-1].pk) if rows else None
        data = operator_view.serialize_list(rows)
        return self.respond(
            serialize_page(data, has_more=has_more, last=last), page=page_context
        )


class TaskView(StudioView):
    """`/admin/tasks/{id}`."""

    breadcrumbs = [("Tasks", TASKS_URL)]
    template = "studio/operations/task.html"

    @extend_schema(summary="Show a task", responses=StudioTask)
    def get(self, request: Request, id: str) -> Response:
        """Return a task with its full prompt and result."""
        task = operator_view.get_task(require_task_id(id))
        self.title = f"Task of {task['agent']}"
        return self.respond(task, page=lambda: _page_context(task))


def _page_context(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the additional context of a task's page."""
    due_at = task["due_at"]
    return {
        "is_closed": task["state"] in CLOSED_STATES,
        "is_due": not due_at or datetime.fromisoformat(due_at) <= datetime.now(UTC),
        "revision": _revision(task),
    }


def _revision(task: Mapping[str, Any]) -> str:
    """Return a value that changes whenever the task's page changes."""
    fields = ("state", "attempts", "cancel_requested", "turn_id", "cost_usd")
    return " ".join(str(task[name]) for name in fields)


class CancelTaskView(StudioView):
    """`/admin/tasks/{id}/cancel`."""

    @extend_schema(summary="Cancel a task", request=None, responses=StudioTask)
    def post(self, request: Request, id: str) -> HttpResponseBase:
        """Cancel a queued task at once, a running one within a second."""
        task_id = require_task_id(id)
        event = AuditEvent("task.cancel", self.actor(), str(task_id))
        audit_log.run_recorded(
            lambda is_new: event if is_new else None, operator_view.cancel_task, task_id
        )
        task = operator_view.get_task(task_id)
        message = {
            "running": "Cancellation requested",
            "cancelled": "Task cancelled",
        }.get(task["state"], f"The task is already {task['state']}")
        return self.confirm_change(
            task, message=message, redirect_to=f"{TASKS_URL}/{task_id}"
        )


class RetryTaskView(StudioView):
    """`/admin/tasks/{id}/retry`."""

    @extend_schema(
        summary="Run a task again", request=None, responses={202: StudioTask}
    )
    def post(self, request: Request, id: str) -> HttpResponseBase:
        """Queue a failed or cancelled task again; repeat a completed one as a new
        task."""
        task_id = require_task_id(id)

        def event_of(queued_id: uuid.UUID) -> AuditEvent:
            return AuditEvent(
                "task.retry", self.actor(), str(task_id), {"as": str(queued_id)}
            )

        queued_id = audit_log.run_recorded(event_of, manual_retry.retry_task, task_id)
        worker_notifier.notify()
        return self.confirm_change(
            operator_view.get_task(queued_id),
            message="Queued again",
            redirect_to=f"{TASKS_URL}/{queued_id}",
            status=202,
        )


def require_task_id(text: str) -> uuid.UUID:
    """Return the id in an address; raises `TaskUnknown` for a malformed one."""
    task_id = task_ids.parse_task_id(text)
    if task_id is None:
        raise TaskUnknown
    return task_id


def _parse_user(text: str) -> UserId | None:
    """Return the id of the named user; None without a name."""
    name = text.strip()
    return identity.derive_user_id(identity.check_identifier(name)) if name else None


def query_choices(name: str, value: str | None, choices: list[str]) -> list[str]:
    """Return the chosen values, if any; raises `Invalid` for unknown ones."""
    if not value:
        return []
    if value not in choices:
        raise Invalid(f"'{name}' must be one of {', '.join(choices)}", param=name)
    return [value]


def page_context() -> dict[str, Any]:
    """Return the choices of the filters."""
    return {
        "states": Row.State.values,
        "kinds": task_kinds.names(),
        "agents": routing.list_names(live.current()),
    }
