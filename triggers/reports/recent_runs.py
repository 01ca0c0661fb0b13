"""The newest runs of triggers: a few of each, however many exist."""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection
from django.db.models.functions import Left

from tasks.models import Task
from telemetry.presentation.turn_serializers import format_time
from triggers.runs import trigger_runs

NEWEST_IDS_SQL = """
    SELECT id FROM (
        SELECT id FROM tasks_task WHERE origin = %s
        ORDER BY created_at DESC LIMIT %s
    ) AS newest
"""
"""Plain SQL, because SQLite needs a subquery for each LIMIT."""
BATCH_SIZE = 100
"""Triggers per statement."""
MAX_ERROR_LENGTH = 300
COLUMNS = ("id", "origin", "state", "created_at", "started_at", "finished_at")


def newest_runs(names: Sequence[str], count: int) -> dict[str, list[dict[str, Any]]]:
    """Return the newest runs of triggers by name, newest first.

    Uses two statements per hundred triggers.
    """
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    names_by_origin = {trigger_runs.task_origin(name): name for name in names}
    tasks = Task.objects.filter(pk__in=list(_newest_ids(list(names_by_origin), count)))
    rows = tasks.values(*COLUMNS, error_text=Left("error", MAX_ERROR_LENGTH))
    for row in rows.order_by("-created_at", "id"):
        runs[names_by_origin[row["origin"]]].append(_serialize_run(row))
    return runs


def _newest_ids(origins: Sequence[str], count: int) -> Iterator[uuid.UUID]:
    for start in range(0, len(origins), BATCH_SIZE):
        batch = origins[start : start + BATCH_SIZE]
        with connection.cursor() as cursor:
            cursor.execute(
                " UNION ALL ".join([NEWEST_IDS_SQL] * len(batch)),
                [value for origin in batch for value in (origin, count)],
            )
            for (task_id,) in cursor.fetchall():
                yield task_id if isinstance(task_id, uuid.UUID) else uuid.UUID(task_id)


def _serialize_run(row: dict[str, Any]) -> dict[str, Any]:
    times = {
        name: None if row[name] is None else format_time(row[name])
        for name in ("created_at", "started_at", "finished_at")
    }
    error = row["error_text"] or None
    return {"id": str(row["id"]), "state": row["state"], "error": error, **times}
