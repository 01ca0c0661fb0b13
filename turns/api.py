"""`/v1/tasks`: background tasks of a user."""

import hashlib
import uuid
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.users.caller import caller_of
from access.users.request_user import USER_HEADER_OPENAPI, CallerQuery, identify_user
from api_base import pagination
from api_base.json_responses import json_response
from config import live
from core.errors import Invalid
from core.ids import UserId
from database import database_executor
from tasks.config import TASKS
from tasks.errors import TaskUnknown
from tasks.queue import lifecycle, worker_notifier
from tasks.reports import task_ids, task_queries
from tasks.submission import admission
from turns.agent_tasks import task_requests
from turns.agent_tasks.task_requests import TaskRequest
from turns.schemas import NewTask, TaskList, TaskObject, TasksQuery

IDEMPOTENCY_HEADER = "Idempotency-Key"
MAX_IDEMPOTENCY_KEY_LENGTH = 255
USER_FIELDS = {"safety_identifier", "user"}
"""Fields that identify the user and do not change the work."""

router = Router(tags=["Tasks"])

IDEMPOTENCY_OPENAPI: dict[str, Any] = {
    "parameters": [
        *USER_HEADER_OPENAPI["parameters"],
        {
            "in": "header",
            "name": IDEMPOTENCY_HEADER,
            "schema": {"type": "string", "maxLength": MAX_IDEMPOTENCY_KEY_LENGTH},
            "required": False,
            "description": "A unique text for each task. A repeated request with the "
            "same key returns the same task.",
        },
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
    config = live.current()
    task_request = TaskRequest(
        body.agent,
        body.prompt,
        "api",
        metadata=body.metadata or {},
        priority=body.priority,
        retries=body.retries,
        delay_seconds=body.delay_seconds,
        key=_idempotency_key(request, user_id),
    )
    task_id, is_new = await database_executor.run_to_end(
        admission.admit_task,
        task_requests.build_task(config, caller_of(request), user_id, task_request),
        max_open=config.get(TASKS).max_open,
        request_digest=_request_digest(body),
    )
    if is_new:
        worker_notifier.notify()
    task = await database_executor.run(task_queries.get_task, task_id, user_id)
    return json_response(task, status=201 if is_new else 200)


def _idempotency_key(request: HttpRequest, user_id: UserId) -> str | None:
    """Return the idempotency key of the request, unique to this user."""
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is None:
        return None
    if not key.strip() or len(key) > MAX_IDEMPOTENCY_KEY_LENGTH:
        raise Invalid(
            f"{IDEMPOTENCY_HEADER} must be 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} "
            "characters long",
            param=IDEMPOTENCY_HEADER,
        )
    # Hashed, because the key may contain characters that databases do not store.
    return f"api:{user_id}:{_digest(key.encode())}"


def _request_digest(body: NewTask) -> str:
    """Return a digest that distinguishes one request body from another."""
    content = body.model_dump(exclude=USER_FIELDS)
    return _digest(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@router.get(
    "",
    summary="List tasks, newest first",
    response=TaskList,
    openapi_extra=USER_HEADER_OPENAPI,
)
async def list_tasks(request: HttpRequest, query: Query[TasksQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    tasks, has_more = await database_executor.run(
        task_queries.list_tasks,
        user_id=user_id,
        states=[] if query.state is None else [query.state],
        agent=query.agent,
        after=await pagination.resolve_cursor(
            user_id,
            query.after,
            parse_id=task_ids.parse_task_id,
            find=task_queries.cursor_of,
        ),
        limit=query.limit,
    )
    return json_response(pagination.serialize_page(tasks, has_more=has_more))


@router.get(
    "/{task_id}",
    summary="Show a task",
    response=TaskObject,
    openapi_extra=USER_HEADER_OPENAPI,
)
async def show_task(
    request: HttpRequest, task_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    return json_response(
        await database_executor.run(task_queries.get_task, _parse_id(task_id), user_id)
    )


@router.post(
    "/{task_id}/cancel",
    summary="Cancel a task",
    response=TaskObject,
    openapi_extra=USER_HEADER_OPENAPI,
)
async def cancel_task(
    request: HttpRequest, task_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id, parsed_id = identify_user(request, query), _parse_id(task_id)
    # Raises for a task that is hidden from users.
    await database_executor.run(task_queries.get_task, parsed_id, user_id)
    await database_executor.run_to_end(lifecycle.cancel, parsed_id, user_id=user_id)
    return json_response(
        await database_executor.run(task_queries.get_task, parsed_id, user_id)
    )


def _parse_id(text: str) -> uuid.UUID:
    """Return the id; raises `TaskUnknown` for a malformed one."""
    task_id = task_ids.parse_task_id(text)
    if task_id is None:
        raise TaskUnknown
    return task_id
