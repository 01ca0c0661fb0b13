"""The store of facts about users: save, edit, delete and read.

Every function takes the user and accesses only that user's facts. docs/facts.md
describes the rules.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from django.db import transaction
from django.utils import timezone

from core.ids import UserId
from memory.errors import FactUnknown
from memory.facts import (
    candidate_facts,
    fact_updates,
    fact_validation,
    point_in_time,
    user_lock,
)
from memory.facts.change_set import ChangeSet
from memory.facts.reconciliation import FactReconciler
from memory.facts.types import (
    Category,
    FactDraft,
    FactHistoryStep,
    SaveResult,
    Source,
    StoredFact,
)
from memory.facts.types import Status as StatusName
from memory.models import Fact, FactChange, FactStatus
from memory.recall import search
from memory.recall.types import Embedded


def save_drafts(
    user_id: UserId,
    drafts: Sequence[FactDraft],
    embedded: Sequence[Embedded | None],
    *,
    by: str,
    threshold: float = 0.9,
    errors: Sequence[str] = (),
) -> list[SaveResult]:
    """Save drafts, all or none, reconciled with the stored facts.

    `embedded` has each draft's vector or None; `errors`, if given, has the reason for
    each missing one. `threshold` is the cosine similarity from which a stored fact is
    compared with a draft. `by` is `extraction`, `agent:NAME`, `user`, `mcp` or
    `operator`. Returns the outcome of each draft. Raises `FactInvalid`.
    """
    now = timezone.now()
    cleaned = [
        replace(draft, said_at=draft.said_at or now)
        for draft in map(fact_validation.clean_draft, drafts)
    ]
    texts = list(zip(embedded, errors or [""] * len(cleaned), strict=True))
    # Read now: reads inside a transaction are not cached for the next search.
    search.open_index(user_id)
    with transaction.atomic():
        user_lock.lock_user(user_id, now)
        change_set = ChangeSet(user_id, by=by, now=now)
        candidates = candidate_facts.load_candidates(
            user_id, cleaned, embedded, threshold=threshold
        )
        reconciler = FactReconciler(change_set, candidates)
        saved = [
            reconciler.reconcile(draft, number, texts[number])
            for number, draft in enumerate(cleaned)
        ]
        change_set.write()
    return saved


def edit_fact(
    user_id: UserId,
    fact_id: uuid.UUID,
    changes: Mapping[str, Any],
    *,
    by: str,
    reason: str = "",
    embedded: Embedded | None = None,
    error: str = "",
) -> StoredFact:
    """Change a fact and return its new state.

    `changes` may hold content, category, importance, key, is_pinned, valid_from,
    valid_to, expires_at and status: `pending_review` removes a fact from prompts,
    `active` restores it, even if superseded, expired or deleted. `embedded` is the
    vector of the content, `error` the reason if it has none.

    Raises `FactUnknown`, `FactInvalid` and `KeyTaken`.
    """
    cleaned = fact_validation.clean_changes(changes)
    text = embedded, error
    with transaction.atomic():
        change_set, fact = _begin_change(user_id, fact_id, by)
        fact_updates.apply_changes(
            change_set, fact, cleaned, by=by, reason=reason, text=text
        )
        change_set.write()
    return stored_fact_from_row(fact)


def soft_delete_fact(
    user_id: UserId, fact_id: uuid.UUID, *, by: str, reason: str = ""
) -> bool:
    """Remove a fact from prompts and searches; it and its history stay stored.

    Returns False if it was already deleted. Raises `FactUnknown`.
    """
    with transaction.atomic():
        change_set, fact = _begin_change(user_id, fact_id, by)
        deleted = {"status": FactStatus.DELETED.value}
        is_changed = change_set.change(fact, deleted, action="deleted", reason=reason)
        change_set.write()
    return is_changed


def _begin_change(
    user_id: UserId, fact_id: uuid.UUID, by: str
) -> tuple[ChangeSet, Fact]:
    now = timezone.now()
    user_lock.lock_user(user_id, now)
    return ChangeSet(user_id, by=by, now=now), _find_fact(user_id, fact_id)


def _find_fact(user_id: UserId, fact_id: uuid.UUID) -> Fact:
    fact = Fact.objects.filter(user_id=user_id, id=fact_id).first()
    if fact is None:
        raise FactUnknown
    return fact


def get_fact(user_id: UserId, fact_id: uuid.UUID) -> StoredFact:
    """Return a fact of any status. Raises `FactUnknown`."""
    return stored_fact_from_row(_find_fact(user_id, fact_id))


def list_changes(user_id: UserId, fact_id: uuid.UUID) -> list[FactHistoryStep]:
    """Return the history of a fact, oldest first. Raises `FactUnknown`."""
    _find_fact(user_id, fact_id)
    steps = FactChange.objects.filter(user_id=user_id, fact_id=fact_id)
    return [
        FactHistoryStep(*step)
        for step in steps.order_by("at", "id").values_list(
            "at", "action", "by", "reason", "before", "after"
        )
    ]


def page_facts(
    user_id: UserId,
    *,
    status: StatusName | None = "active",
    category: Category | None = None,
    source: Source | None = None,
    is_pinned: bool | None = None,
    as_of: datetime | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = 20,
) -> tuple[list[StoredFact], bool]:
    """Return facts, newest first, and whether there are more.

    `status=None` means any. `after` is the `created_at` and the id of the last fact of
    the previous page. With `as_of`, facts are returned as they were at that time, and
    `status` refers to that time too.
    """
    filters_by_name = {"category": category, "source": source, "is_pinned": is_pinned}
    filters = {
        name: value for name, value in filters_by_name.items() if value is not None
    }
    if as_of is not None:
        rows = point_in_time.list_facts_at(
            user_id,
            as_of,
            status=status,
            filters=filters,
            after=after,
            limit=limit + 1,
        )
    else:
        as_of = timezone.now()
        facts = Fact.objects.filter(
            point_in_time.after_cursor(after),
            point_in_time.status_condition(status, as_of),
            user_id=user_id,
            **filters,
        )
        rows = list(facts.order_by(*point_in_time.NEWEST_FIRST)[: limit + 1])
    return [stored_fact_from_row(row, at=as_of) for row in rows[:limit]], len(
        rows
    ) > limit


def expire_due_facts(now: datetime, *, limit: int = 500) -> int:
    """Mark facts past their `expires_at` as expired, and return how many there were.

    They are hidden from that moment on; this removes them from the index and extends
    their history. At most `limit` at a time.
    """
    due = Fact.objects.filter(
        status=FactStatus.ACTIVE, is_pinned=False, expires_at__lte=now
    ).order_by("expires_at")
    rows = due.values_list("user_id", "id")[:limit]
    by_user: dict[uuid.UUID, list[uuid.UUID]] = {}
    for user_id, fact_id in rows:
        by_user.setdefault(user_id, []).append(fact_id)
    return sum(
        _expire_facts(UserId(user_id), fact_ids, now)
        for user_id, fact_ids in by_user.items()
    )


def _expire_facts(user_id: UserId, fact_ids: Sequence[uuid.UUID], now: datetime) -> int:
    with transaction.atomic():
        user_lock.lock_user(user_id, now)
        change_set = ChangeSet(user_id, by="expiry", now=now)
        # Queried again: a fact may have been pinned or prolonged before the lock.
        due = Fact.objects.filter(
            point_in_time.status_condition("expired", now), status=FactStatus.ACTIVE
        )
        facts = list(due.filter(user_id=user_id, id__in=fact_ids))
        for fact in facts:
            expired = {"status": FactStatus.EXPIRED.value}
            change_set.change(fact, expired, action="expired")
        change_set.write()
    return len(facts)


def stored_fact_from_row(row: Fact, *, at: datetime | None = None) -> StoredFact:
    """Return the fact of a row; it is expired if `expires_at` is before `at`, or
    now."""
    return StoredFact(
        id=row.id,
        content=row.content,
        category=cast(Category, row.category),
        key=row.key,
        importance=row.importance,
        status=cast(StatusName, point_in_time.status_at(row, at or timezone.now())),
        is_pinned=row.is_pinned,
        source=cast(Source, row.source),
        agent=row.agent,
        quote=row.quote,
        said_at=row.said_at,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        expires_at=row.expires_at,
        superseded_by=row.superseded_by_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
