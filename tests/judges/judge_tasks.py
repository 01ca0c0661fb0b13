"""Queries for the judge tasks of a user, and for their results."""

from typing import Any

import orjson

from core.ids import UserId
from judges.models import Score
from tasks.models import Task
from tests.judges.sample_judges import is_judging


def scores_of(user_id: UserId) -> dict[str, int]:
    rows = Score.objects.filter(user_id=user_id)
    return {f"{row.judge}.{row.criterion}": row.value for row in rows}


def tasks_of(user_id: UserId) -> list[Task]:
    rows = Task.objects.filter(user_id=user_id, kind="judge")
    return list(rows.order_by("created_at", "origin"))


def wait_for_task(worker, user_id: UserId) -> Task:
    """Return the user's only judge task, after it has ended."""
    (task,) = tasks_of(user_id)
    worker.check_queue()
    return worker.wait_for_end(task)


def judge_requests(fake) -> list[Any]:
    return [request for request in fake.requests if is_judging(request)]


def receipt_of(task: Task) -> dict[str, Any]:
    return orjson.loads(task.result)
