"""The runs of synthetic users, for export and erasure."""

from collections.abc import Iterator
from typing import Any

from database.user_data import Export, UserTable
from smoke.models import SmokeMessage, SmokeRun


def _serialize_messages(rows: list[SmokeMessage]) -> Iterator[dict[str, Any]]:
    """Return messages in the format of an export, without their calls."""
    for row in rows:
        yield {
            "run": row.run_id,
            "position": row.position,
            "speaker": row.speaker,
            "text": row.text,
            "sent_at": row.sent_at,
        }


def _serialize_runs(rows: list[SmokeRun]) -> Iterator[dict[str, Any]]:
    """Return runs in the format of an export."""
    for row in rows:
        yield {
            "id": row.id,
            "test": row.test,
            "target": row.target,
            "state": row.state,
            "verdict": row.verdict,
            "created_at": row.created_at,
            "finished_at": row.finished_at,
        }


TABLES = (
    UserTable(
        "smoke_messages",
        SmokeMessage,
        erased=30,
        through="run",
        export=Export("smoke_messages", _serialize_messages),
    ),
    UserTable(
        "smoke_runs", SmokeRun, erased=31, export=Export("smoke_runs", _serialize_runs)
    ),
)
