"""`/v1/tasks`: background tasks of a user."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.users.caller import caller_of
from access.users.request_user import CallerQuery, identify_user
from api_base import pagination
from api_base.json_responses import json_response
from config import live
from core import ids
from core.ids import UserId
from database import database_executor
from tasks import user_tasks
from tasks.errors import TaskUnknown
from tasks.schemas import TaskList, TaskObject
from turns import idempotency
from turns.agent_tasks import task_requests
from turns.agent_tasks.task_requests import TaskRequest
from turns.preparation import options
from turns.schemas import NewTask, TasksQuery

router = Router(tags=["Tasks"])

IDEMPOTENCY_OPENAPI: dict[str, Any] = {
    "parameters": [
        *options.TURN_OPENAPI["parameters"],
        idempotency.describe_header(
            "A unique text for each task. A repeated request with the same key "
            "returns the same task."
        ),
    ]
}


@router.post(
    "",
    summary="Run an agent in the background",
    response={200: TaskObject, 201: TaskObject},
    openapi_extra=IDEMPOTENCY_OPENAPI,
)
async def create_task(
    request: HttpRequest, query: Query[CallerQuery], body: Body[NewTask]
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    metadata = options.request_metadata(request, body.metadata)
    task_request = TaskRequest(
        body.agent,
        body.prompt,
        "api",
        metadata=metadata,
        priority=body.priority,
        retries=body.retries,
        delay_seconds=body.delay_seconds,
        key=_idempotency_key(request, user_id),
    )
    task_id, is_new = await task_requests.submit(
        live.current(),
        caller_of(request),
        user_id,
        task_request,
        request_digest=idempotency.digest_request(body, metadata),
    )
    task = await database_executor.run(user_tasks.get_task, task_id, user_id)
    return json_response(task, status=201 if is_new else 200)


def _idempotency_key(request: HttpRequest, user_id: UserId) -> str | None:
    """Return the idempotency key of the request, unique to this user."""
    key = idempotency.read_key(request)
    return None if key is None else f"api:{user_id}:{key}"


@router.get("", summary="List tasks, newest first", response=TaskList)
async def list_tasks(request: HttpRequest, query: Query[TasksQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    after = await pagination.resolve_cursor(
        user_id, query.after, parse_id=ids.parse_uuid, find=user_tasks.find_cursor
    )
    tasks = await database_executor.run(
        user_tasks.list_tasks,
        user_id,
        state=query.state,
        agent=query.agent,
        after=after,
        limit=query.limit,
    )
    return json_response(tasks)


@router.get("/{task_id}", summary="Show a task", response=TaskObject)
async def show_task(
    request: HttpRequest, task_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    task = await database_executor.run(user_tasks.get_task, _parse_id(task_id), user_id)
    return json_response(task)


@router.post("/{task_id}/cancel", summary="Cancel a task", response=TaskObject)
async def cancel_task(
    request: HttpRequest, task_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id, parsed_id = identify_user(request, query), _parse_id(task_id)
    task = await database_executor.run_to_end(
        user_tasks.cancel_task, parsed_id, user_id
    )
    return json_response(task)


def _parse_id(text: str) -> uuid.UUID:
    """Return the id; raises `TaskUnknown` for a malformed one."""
    task_id = ids.parse_uuid(text)
    if task_id is None:
        raise TaskUnknown
    return task_id
