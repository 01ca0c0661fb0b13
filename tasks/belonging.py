"""A user's tasks, for the export of all there is about them."""

from collections.abc import Iterator
from typing import Any

from memory.belongings import Belongings
from tasks.models import Task


def describe(rows: list[Task]) -> Iterator[dict[str, Any]]:
    """Tell tasks as an export has them."""
    for row in rows:
        yield {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "agent": row.agent,
            "prompt": row.prompt,
            "result": row.result,
            "error": row.error,
            "origin": row.origin,
            "created_at": row.created_at,
            "finished_at": row.finished_at,
        }


TASKS = Belongings(
    "tasks", lambda user_id: Task.objects.filter(user_id=user_id), describe
)
