"""The YAML's `retention:` block: ages of rows that no other section has."""

from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Model, QuerySet
from pydantic import BaseModel, ConfigDict, Field

from config import live
from config.sections import Section

Rows = TypeVar("Rows", bound=QuerySet[Model])


def _days(default: int | None, rows: str) -> int | None:
    days: int | None = Field(
        default,
        ge=1,
        le=36_500,
        description=f"Days until {rows} are deleted. `null` keeps them forever.",
    )
    return days


class RetentionConfig(BaseModel):
    """How long rows are stored that no other section has an age for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    audit_days: int | None = _days(1_100, "entries of the audit")
    consolidation_days: int | None = _days(365, "records of consolidations")
    fact_changes_days: int | None = _days(None, "the steps in the history of facts")
    feedback_days: int | None = _days(None, "users' ratings and comments")
    scores_days: int | None = _days(None, "judges' scores")


RETENTION = Section(
    key="retention",
    shape=RetentionConfig,
    default=RetentionConfig,
    fails_closed=True,
    description="ages of rows that no other section has",
)


def older_rows(rows: Rows, setting: str, field: str, now: datetime) -> Rows:
    """Return the rows whose time is before the age of a setting, oldest first."""
    days = getattr(live.current().get(RETENTION), setting)
    if days is None:
        return rows.none()
    before = now - timedelta(days=days)
    return rows.filter(**{f"{field}__lt": before}).order_by(field, "pk")
