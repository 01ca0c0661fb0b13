"""Scores of judges; a turn has the id of its reply in both versions."""

from collections.abc import Sequence

from imports.coulisse import users
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    read_optional_text,
    read_text,
    read_time,
    read_uuid,
    row_name,
)
from imports.report import Report, batch
from judges.models import Score

KIND = "scores"
COLUMNS = (
    "message_id",
    "user_id",
    "agent_name",
    "judge_name",
    "criterion",
    "score",
    "reasoning",
    "created_at",
)
MAX_NAME_LENGTH, MAX_CRITERION_LENGTH = 255, 64
HIGHEST = 10

Key = tuple[object, str, str]


def import_scores(source: SourceDatabase, report: Report) -> None:
    """Import scores; older databases have no agents in them."""
    if not source.has("scores", KIND, report):
        return
    for rows in source.batches("scores", COLUMNS, kind=KIND, report=report):
        scores: dict[Key, Score] = {}
        for row in rows:
            try:
                score = _read_score(row)
            except RowDamaged as exc:
                report.skip(KIND, row_name(row), str(exc))
                continue
            if _key(score) in scores:
                report.skip(KIND, row_name(row), "a later score replaces it")
            scores[_key(score)] = score
        with batch(report):
            _write(list(scores.values()), report)


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


def _write(scores: Sequence[Score], report: Report) -> None:
    rows = Score.objects.filter(turn_id__in=[score.turn_id for score in scores])
    known = set(rows.values_list("turn_id", "judge", "criterion"))
    new = [score for score in scores if _key(score) not in known]
    Score.objects.bulk_create(new, ignore_conflicts=True)
    report.count(KIND, written=len(new), existing=len(scores) - len(new))
