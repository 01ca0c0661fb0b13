"""A synthetic user's runs, for what is told and erased of users."""

from collections.abc import Iterator
from typing import Any

from memory.user_data.registry import Belongings
from smoke.models import Line, Run


def _describe_lines(rows: list[Line]) -> Iterator[dict[str, Any]]:
    """Tell lines as an export has them: what was said, not what it took."""
    for row in rows:
        yield {
            "run": row.run_id,
            "position": row.position,
            "speaker": row.speaker,
            "text": row.text,
            "said_at": row.said_at,
        }


def _describe_runs(rows: list[Run]) -> Iterator[dict[str, Any]]:
    """Tell runs as an export has them."""
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


ALL = (
    # Lines first: they hang on their runs.
    Belongings(
        "smoke_lines",
        lambda user_id: Line.objects.filter(run__user_id=user_id),
        _describe_lines,
    ),
    Belongings(
        "smoke_runs",
        lambda user_id: Run.objects.filter(user_id=user_id),
        _describe_runs,
    ),
)
