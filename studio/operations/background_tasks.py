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
    """A page of tasks, newest first; long texts are cut."""

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
            OpenApiParameter("agent", str, description="Only this agent's."),
            OpenApiParameter(
                "user", str, description="As clients name them, or a UUID."
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
            limit=self.query_int("limit", default=50, most=500),
        )
        last = (rows[-1].created_at, rows[-1].pk) if rows else None
        told = operator_view.serialize_list(rows)
        return self.respond(
            serialize_page(told, has_more=has_more, last=last), page=page_context
        )


class TaskView(StudioView):
    """`/admin/tasks/{id}`."""

    breadcrumbs = [("Tasks", TASKS_URL)]
    template = "studio/operations/task.html"

    @extend_schema(summary="Show a task", responses=StudioTask)
    def get(self, request: Request, id: str) -> Response:
        """Return a task with its full prompt and result."""
        told = operator_view.get_task(require_task_id(id))
        self.title = f"Task of {told['agent']}"
        return self.respond(told, page=lambda: _page_context(told))


def _page_context(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the additional context of a task's page."""
    due_at = told["due_at"]
    return {
        "is_over": told["state"] in CLOSED_STATES,
        "is_due": not due_at or datetime.fromisoformat(due_at) <= datetime.now(UTC),
        "revision": _revision(told),
    }


def _revision(told: Mapping[str, Any]) -> str:
    """Return a value that changes whenever the task's page changes."""
    named = ("state", "attempts", "cancel_requested", "turn_id", "cost_usd")
    return " ".join(str(told[name]) for name in named)


class CancelTaskView(StudioView):
    """`/admin/tasks/{id}/cancel`."""

    @extend_schema(summary="Cancel a task", request=None, responses=StudioTask)
    def post(self, request: Request, id: str) -> HttpResponseBase:
        """Cancel a task: at once while it waits, within a second while it runs."""
        wanted = require_task_id(id)
        deed = AuditEvent("task.cancel", self.actor(), str(wanted))
        audit_log.run_recorded(
            lambda is_new: deed if is_new else None, operator_view.cancel_task, wanted
        )
        told = operator_view.get_task(wanted)
        said = {
            "running": "It ends in a moment",
            "cancelled": "Cancelled the task",
        }.get(told["state"], f"It is {told['state']} already")
        return self.confirm_change(
            told, message=said, redirect_to=f"{TASKS_URL}/{wanted}"
        )


class RetryTaskView(StudioView):
    """`/admin/tasks/{id}/again`."""

    @extend_schema(summary="Do a task again", request=None, responses={202: StudioTask})
    def post(self, request: Request, id: str) -> HttpResponseBase:
        """Queue a failed or cancelled task again; repeat a completed one as a new
        task."""
        wanted = require_task_id(id)

        def deed(which: uuid.UUID) -> AuditEvent:
            return AuditEvent(
                "task.retry", self.actor(), str(wanted), {"as": str(which)}
            )

        which = audit_log.run_recorded(deed, manual_retry.retry_task, wanted)
        worker_notifier.notify()
        return self.confirm_change(
            operator_view.get_task(which),
            message="It is done again as soon as a worker is free",
            redirect_to=f"{TASKS_URL}/{which}",
            status=202,
        )


def require_task_id(text: str) -> uuid.UUID:
    """Return the id in an address; raises `TaskUnknown` for a malformed one."""
    found = task_ids.parse_task_id(text)
    if found is None:
        raise TaskUnknown
    return found


def _parse_user(text: str) -> UserId | None:
    """Return the user of that name; None without a name."""
    name = text.strip()
    return identity.derive_user_id(identity.check_identifier(name)) if name else None


def query_choices(name: str, value: str | None, known: list[str]) -> list[str]:
    """Return the chosen values, if any; raises `Invalid` for unknown ones."""
    if not value:
        return []
    if value not in known:
        raise Invalid(f"'{name}' must be one of {', '.join(known)}", param=name)
    return [value]


def page_context() -> dict[str, Any]:
    """Return the choices that the page offers."""
    return {
        "states": Row.State.values,
        "kinds": task_kinds.names(),
        "agents": routing.list_names(live.current()),
    }
