"""Users' tasks, for export and erasure."""

from collections.abc import Iterator
from typing import Any

from core.errors import public_text
from database.user_data import Export, UserTable
from tasks.models import Task
from tasks.queue import task_kinds


def _serialize_tasks(rows: list[Task]) -> Iterator[dict[str, Any]]:
    """Tell tasks as an export has them.

    What came of work they never see, such as judging, names models and what they cost;
    the scores themselves are told apart.
    """
    seen = task_kinds.listed_names()
    for row in rows:
        is_seen = row.kind in seen
        yield {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "agent": row.agent,
            "prompt": row.prompt,
            "result": row.result if is_seen else None,
            "error": public_text(row.error) if is_seen else None,
            "origin": row.origin,
            "created_at": row.created_at,
            "finished_at": row.finished_at,
        }


TABLES = (
    # First: who erases them waits for a judge that is about to score.
    UserTable("tasks", Task, erased=10, export=Export("tasks", _serialize_tasks)),
)
