"""Scores of judges; a turn has the id of its reply in both versions."""

from collections.abc import Sequence

from imports.coulisse import users
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    Table,
    read_optional_text,
    read_text,
    read_time,
    read_uuid,
)
from judges.models import Score

SCORES = Table(
    "scores",
    "scores",
    (
        "message_id",
        "user_id",
        "agent_name",
        "judge_name",
        "criterion",
        "score",
        "reasoning",
        "created_at",
    ),
)
MAX_NAME_LENGTH, MAX_CRITERION_LENGTH = 255, 64
HIGHEST = 10

Key = tuple[object, str, str]


def import_scores(source: SourceDatabase) -> None:
    """Import scores; older databases have no agents in them."""
    source.import_rows(SCORES, _read_score, lambda scores: _write(source, scores))


def _read_score(row: Row) -> Score:
    value = row["score"]
    if not isinstance(value, int | float) or not 0 <= value <= HIGHEST:
        raise RowDamaged(f"'score' is not a number from 0 to {HIGHEST}")
    return Score(
        turn_id=read_uuid(row, "message_id"),
        user_id=users.read_user(row),
        judge=_read_name(row, "judge_name", MAX_NAME_LENGTH),
        criterion=_read_name(row, "criterion", MAX_CRITERION_LENGTH),
        value=round(value),
        reasoning=read_optional_text(row, "reasoning"),
        agent=read_optional_text(row, "agent_name")[:MAX_NAME_LENGTH],
        judged_at=read_time(row, "created_at"),
    )


def _read_name(row: Row, name: str, max_length: int) -> str:
    text = read_text(row, name)
    if not 0 < len(text) <= max_length:
        raise RowDamaged(f"'{name}' must have 1 to {max_length} characters")
    return text


def _key(score: Score) -> Key:
    return score.turn_id, score.judge, score.criterion


def _write(source: SourceDatabase, scores: Sequence[Score]) -> None:
    rows = Score.objects.filter(turn_id__in=[score.turn_id for score in scores])
    known = set(rows.values_list("turn_id", "judge", "criterion"))
    # The last of several scores by the same criterion counts.
    latest = {_key(score): score for score in scores}
    new = [score for key, score in latest.items() if key not in known]
    Score.objects.bulk_create(new)
    source.report.count(SCORES.kind, written=len(new), existing=len(scores) - len(new))
