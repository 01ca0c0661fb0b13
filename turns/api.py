"""`/v1/tasks`: work that a user has done in the background."""

import hashlib
import uuid
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.users.caller import caller_of
from access.users.request_user import IN_OPENAPI, CallerQuery, identify
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
from turns.agent_tasks.task_requests import Wish
from turns.schemas import NewTask, Task, TaskList, TasksQuery

KEY_HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 255
NAMES = {"safety_identifier", "user"}
"""Fields that say who asks and not for what."""

router = Router(tags=["Tasks"])

WITH_KEY: dict[str, Any] = {
    "parameters": [
        *IN_OPENAPI["parameters"],
        {
            "in": "header",
            "name": KEY_HEADER,
            "schema": {"type": "string", "maxLength": MAX_KEY_LENGTH},
            "required": False,
            "description": "Any text that is new for each task: a request that is sent "
            "again with the same one is answered with the same task.",
        },
    ]
}


@router.post(
    "",
    summary="Have an agent do something in the background",
    response={200: Task, 201: Task},
    openapi_extra=WITH_KEY,
)
async def create_task(
    request: HttpRequest, asked: Query[CallerQuery], body: Body[NewTask]
) -> HttpResponse:
    user_id = identify(request, asked, body)
    config, caller = live.current(), caller_of(request)
    key = _key(request, user_id)
    wish = Wish(
        body.agent,
        body.prompt,
        "api",
        metadata=body.metadata or {},
        priority=body.priority,
        retries=body.retries,
        delay_seconds=body.delay_seconds,
        key=key,
    )
    draft = task_requests.draft(config, caller, user_id, wish)
    most = config.get(TASKS).max_open
    task_id, is_new = await database_executor.run_to_end(
        admission.accept, draft, max_open=most, asked=_asked(body)
    )
    if is_new:
        worker_notifier.soon()
    told = await database_executor.run(task_queries.one, task_id, user_id)
    return json_response(told, status=201 if is_new else 200)


def _key(request: HttpRequest, user_id: UserId) -> str | None:
    """Return what is done once only by a request, of this user."""
    given = request.headers.get(KEY_HEADER)
    if given is None:
        return None
    if not given.strip() or len(given) > MAX_KEY_LENGTH:
        raise Invalid(
            f"{KEY_HEADER} must be 1 to {MAX_KEY_LENGTH} characters long",
            param=KEY_HEADER,
        )
    # As it is, it might hold what no database takes.
    return f"api:{user_id}:{_digest(given.encode())}"


def _asked(body: NewTask) -> str:
    """Return what tells one request from another."""
    content = body.model_dump(exclude=NAMES)
    return _digest(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@router.get(
    "",
    summary="List tasks, the newest first",
    response=TaskList,
    openapi_extra=IN_OPENAPI,
)
async def list_tasks(request: HttpRequest, asked: Query[TasksQuery]) -> HttpResponse:
    user_id = identify(request, asked)
    told, has_more = await database_executor.run(
        task_queries.listed,
        user_id=user_id,
        states=[] if asked.state is None else [asked.state],
        agent=asked.agent,
        after=await pagination.place(
            user_id, asked.after, read=task_ids.read, find=task_queries.place
        ),
        limit=asked.limit,
    )
    return json_response(pagination.page(told, has_more=has_more))


@router.get(
    "/{task_id}",
    summary="Show a task",
    response=Task,
    openapi_extra=IN_OPENAPI,
)
async def show_task(
    request: HttpRequest, task_id: str, asked: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify(request, asked)
    return json_response(
        await database_executor.run(task_queries.one, _id(task_id), user_id)
    )


@router.post(
    "/{task_id}/cancel",
    summary="Cancel a task",
    response=Task,
    openapi_extra=IN_OPENAPI,
)
async def cancel_task(
    request: HttpRequest, task_id: str, asked: Query[CallerQuery]
) -> HttpResponse:
    user_id, wanted = identify(request, asked), _id(task_id)
    # It may be one of those that users do not see.
    await database_executor.run(task_queries.one, wanted, user_id)
    await database_executor.run_to_end(lifecycle.cancel, wanted, user_id=user_id)
    return json_response(await database_executor.run(task_queries.one, wanted, user_id))


def _id(text: str) -> uuid.UUID:
    """Return the id; what is none is answered as one nobody has."""
    task_id = task_ids.read(text)
    if task_id is None:
        raise TaskUnknown
    return task_id
