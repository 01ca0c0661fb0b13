"""Users' tasks, for export and erasure."""

from collections.abc import Iterator
from typing import Any

from core.errors import public_text
from database.user_data import Export, UserTable
from tasks.models import Task
from tasks.queue import task_kinds


def _serialize_tasks(rows: list[Task]) -> Iterator[dict[str, Any]]:
    """Return tasks in the format of an export.

    The results of unlisted tasks, such as judging, are left out, because they contain
    models and costs; the scores are exported elsewhere.
    """
    listed_kinds = task_kinds.listed_names()
    for row in rows:
        is_listed = row.kind in listed_kinds
        yield {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "agent": row.agent,
            "prompt": row.prompt,
            "result": row.result if is_listed else None,
            "error": public_text(row.error) if is_listed else None,
            "origin": row.origin,
            "created_at": row.created_at,
            "finished_at": row.finished_at,
        }


TABLES = (
    # First, so that an erasure waits for a judge that is about to store scores.
    UserTable("tasks", Task, erased=10, export=Export("tasks", _serialize_tasks)),
)
