"""Facts as they were stored, and valid, at a past time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef

from core.ids import UserId
from database import keyset
from memory.models import Fact, FactChange
from memory.models.fact_queryset import FactCursor, FactQuerySet


def list_facts_at(
    user_id: UserId,
    at: datetime,
    *,
    status: str | None,
    filters: Mapping[str, Any],
    after: FactCursor | None,
    limit: int,
) -> list[Fact]:
    """Return facts as they were at a time, newest first.

    Includes facts known by then; with `status="active"` only those valid by what was
    known then. `filters` has field values. Runs three queries for any amount of
    data: the database filters facts unchanged since; for the others, later changes are
    undone.
    """
    facts = Fact.objects.filter(
        keyset.later_rows("created_at", after), user_id=user_id, created_at__lte=at
    )
    later_changes = FactChange.objects.filter(fact=OuterRef("pk"), at__gt=at)
    unchanged = facts.filter(~Exists(later_changes), **filters).with_status(status, at)
    if status == "active":
        unchanged = unchanged.valid_at(at)
    found = list(unchanged.newest_first()[:limit])
    changed = facts.filter(Exists(later_changes))
    if len(found) == limit:
        changed = changed.exclude(keyset.later_rows("created_at", found[-1].cursor))
    found += [
        fact for fact in _rewind(changed, at) if _matches(fact, at, status, filters)
    ]
    for fact in found:
        fact.viewed_at = at
    return sorted(found, key=lambda fact: fact.cursor, reverse=True)[:limit]


def _rewind(facts: FactQuerySet, at: datetime) -> list[Fact]:
    """Return facts with their later changes undone, in memory only."""
    rows = {fact.id: fact for fact in facts}
    forgotten = {key for key, fact in rows.items() if fact.status == "deleted"}
    steps = FactChange.objects.filter(at__gt=at, fact__in=facts)
    for step in steps.order_by("-at", "-id"):
        step.undo(rows[step.fact_id])
    # A fact that is forgotten now is forgotten for the past, too.
    return [
        fact
        for fact in rows.values()
        if fact.id not in forgotten or fact.status == "deleted"
    ]


def _matches(
    fact: Fact, at: datetime, status: str | None, filters: Mapping[str, Any]
) -> bool:
    if any(getattr(fact, name) != value for name, value in filters.items()):
        return False
    return status is None or fact.is_shown_at(at, status)
