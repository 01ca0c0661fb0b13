"""Facts as they were stored, and valid, at a past time."""

import uuid
from collections.abc import Mapping
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from core.ids import UserId
from memory.facts.change_set import set_field_values
from memory.models import Fact, FactChange

FactCursor = tuple[datetime, uuid.UUID]
"""The cursor of a page: the `created_at` and id of a fact."""
NEWEST_FIRST = ("-created_at", "-id")


def list_facts_at(
    user_id: UserId,
    at: datetime,
    *,
    status: str | None,
    filters: Mapping[str, str | bool],
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
        after_cursor(after), user_id=user_id, created_at__lte=at
    )
    later_changes = FactChange.objects.filter(fact=OuterRef("pk"), at__gt=at)
    unchanged = facts.filter(
        ~Exists(later_changes), status_condition(status, at), **filters
    )
    if status == "active":
        unchanged = unchanged.filter(_validity_condition(at))
    found = list(unchanged.order_by(*NEWEST_FIRST)[:limit])
    changed = facts.filter(Exists(later_changes))
    if len(found) == limit:
        changed = changed.exclude(after_cursor(cursor_of(found[-1])))
    for fact in _rewind(user_id, changed, at):
        if _matches(fact, at, status, filters):
            found.append(fact)
    return sorted(found, key=cursor_of, reverse=True)[:limit]


def cursor_of(fact: Fact) -> FactCursor:
    return fact.created_at, fact.id


def after_cursor(after: FactCursor | None) -> Q:
    """Return the condition for facts after a cursor, newest first."""
    if after is None:
        return Q()
    created_at, fact_id = after
    return Q(created_at__lt=created_at) | Q(created_at=created_at, id__lt=fact_id)


def status_condition(status: str | None, at: datetime) -> Q:
    """Return the condition for a status; a fact expires exactly at `expires_at`."""
    is_unexpired = Q(is_pinned=True) | Q(expires_at__isnull=True) | Q(expires_at__gt=at)
    match status:
        case None:
            return Q()
        case "active":
            return Q(status="active") & is_unexpired
        case "expired":
            return Q(status="expired") | Q(status="active") & ~is_unexpired
        case _:
            return Q(status=status)


def _validity_condition(at: datetime) -> Q:
    """Return the condition for facts that are valid at a time."""
    has_begun = Q(valid_from__isnull=True) | Q(valid_from__lte=at)
    return has_begun & (Q(valid_to__isnull=True) | Q(valid_to__gt=at))


def status_at(fact: Fact, at: datetime) -> str:
    """Return a fact's status, which is `expired` from `expires_at` on."""
    is_due = fact.expires_at is not None and fact.expires_at <= at
    if fact.status == "active" and is_due and not fact.is_pinned:
        return "expired"
    return fact.status


def _matches(
    fact: Fact, at: datetime, status: str | None, filters: Mapping[str, str | bool]
) -> bool:
    if any(getattr(fact, name) != value for name, value in filters.items()):
        return False
    if status is None:
        return True
    has_begun = fact.valid_from is None or fact.valid_from <= at
    has_ended = fact.valid_to is not None and fact.valid_to <= at
    is_valid = has_begun and not has_ended
    return status_at(fact, at) == status and (is_valid or status != "active")


def _rewind(user_id: UserId, facts: QuerySet[Fact], at: datetime) -> list[Fact]:
    rows = {fact.id: fact for fact in facts}
    steps = FactChange.objects.filter(user_id=user_id, at__gt=at, fact__in=facts)
    for step in steps.order_by("-at", "-id"):
        set_field_values(rows[step.fact_id], step.before or {})
    return list(rows.values())
