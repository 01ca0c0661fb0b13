"""Facts by the ids of their user and their own, for callers that import no models.

Every function takes the user and accesses only that user's facts. docs/facts.md
describes the rules.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from core.ids import UserId
from memory.errors import LearningOff
from memory.facts import candidate_facts, fact_validation, point_in_time
from memory.facts.reconciliation import FactReconciler
from memory.facts.types import AnyCategory, FactDraft, SaveResult, Source, Status
from memory.models import Erasure, Fact, FactChange, FactMessage, Owner
from memory.models.fact_choices import HUMAN_SOURCES
from memory.models.fact_queryset import FactCursor
from memory.recall import search
from memory.recall.query_embedding import NO_VECTOR
from memory.recall.types import UNEMBEDDED, Embedded, EmbeddingResult


def save_drafts(
    user_id: UserId,
    drafts: Sequence[FactDraft],
    embedded: Sequence[Embedded | None],
    *,
    by: str,
    threshold: float = 0.9,
    errors: Sequence[str] = (),
    begun_at: datetime | None = None,
) -> list[SaveResult]:
    """Save drafts, all or none, reconciled with the stored facts.

    `embedded` has each draft's vector or None; `errors`, if given, has the reason for
    each missing one. `threshold` is the cosine similarity from which a stored fact is
    compared with a draft. `by` is `extraction`, `agent:NAME`, `user`, `mcp` or
    `operator`. Returns the outcome of each draft. Raises `FactInvalid`, and
    `LearningOff` unless a person has entered them all, and `UserErased` if the user was
    erased since `begun_at`.
    """
    cleaned = list(map(fact_validation.clean_draft, drafts))
    texts = list(zip(embedded, errors or [""] * len(cleaned), strict=True))
    # Read now: reads inside a transaction are not cached for the next search.
    search.open_index(user_id)
    is_learnt = any(draft.source not in HUMAN_SOURCES for draft in cleaned)
    with Owner.objects.locked(user_id) as now:
        Erasure.objects.refuse_erased(user_id, begun_at)
        if is_learnt:
            _check_learning(user_id)
        candidates = candidate_facts.load_candidates(
            user_id, cleaned, embedded, threshold=threshold
        )
        reconciler = FactReconciler(user_id, candidates, by=by, now=now)
        saved = [
            reconciler.reconcile(
                replace(draft, said_at=draft.said_at or now), number, texts[number]
            )
            for number, draft in enumerate(cleaned)
        ]
        Fact.objects.write(user_id, reconciler.facts)
        FactMessage.objects.link(
            (result.fact_id, draft.message_id)
            for draft, result in zip(cleaned, saved, strict=True)
            if draft.message_id is not None
        )
    return saved


def _check_learning(user_id: UserId) -> None:
    if not Owner.objects.of_user(user_id).is_learning_on:
        raise LearningOff


def save_held(
    user_id: UserId, held: Fact, now: datetime, *, by: str, is_accepted: bool
) -> SaveResult:
    """Reconcile a held fact with the stored ones, as `save_drafts` does.

    It becomes active, the past of another fact, or is held for a conflict; if another
    fact has its content, it is deleted. `is_accepted`: a person has accepted it. The
    user is locked.
    """
    draft = FactDraft(
        content=held.content,
        category=held.category,  # type: ignore[arg-type]  # a column of a choice
        importance=held.importance,
        key=held.key,
        is_pinned=held.is_pinned,
        source=held.source,  # type: ignore[arg-type]  # a column of a choice
        scope=held.scope,
        agent=held.agent,
        quote=held.quote,
        message_id=held.message_id,
        said_at=held.said_at,
        valid_from=held.valid_from,
        valid_to=held.valid_to,
        expires_at=held.expires_at,
        supersedes=held.replaces_id,
        is_accepted=is_accepted,
    )
    candidates = candidate_facts.load_candidates(
        user_id, [draft], [None], threshold=1.0, held=held
    )
    reconciler = FactReconciler(user_id, candidates, by=by, now=now, held=held)
    # Its vector is added later.
    saved = reconciler.reconcile(draft, 0, (None, NO_VECTOR))
    Fact.objects.write(user_id, [fact for fact in reconciler.facts if fact != held])
    if saved.fact_id == held.pk:
        # After the others: it may take the key of a superseded one.
        Fact.objects.write(user_id, [held])
    else:
        links = FactMessage.objects.filter(fact=held)
        messages = list(links.values_list("message_id", flat=True))
        FactMessage.objects.link((saved.fact_id, number) for number in messages)
        held.delete()
    return saved


def get_fact(user_id: UserId, fact_id: uuid.UUID) -> Fact:
    """Return a fact of any status. Raises `FactUnknown`."""
    return Fact.objects.get_known(user_id, fact_id)


def find_cursor(fact_id: uuid.UUID, user_id: UserId) -> FactCursor | None:
    """Return the position of a fact in lists; None if the user has no such fact."""
    fact = Fact.objects.filter(user_id=user_id, id=fact_id).first()
    return None if fact is None else fact.cursor


def edit_fact(
    user_id: UserId,
    fact_id: uuid.UUID,
    changes: Mapping[str, Any],
    *,
    by: str,
    text: EmbeddingResult = UNEMBEDDED,
) -> Fact:
    """Change a fact, as `Fact.edit` does, and return it.

    Raises `LearningOff` unless a person changes it.
    """
    if by not in HUMAN_SOURCES:
        _check_learning(user_id)
    fact = Fact.objects.get_known(user_id, fact_id)
    fact.edit(changes, by=by, text=text)
    return fact


def list_changes(user_id: UserId, fact_id: uuid.UUID) -> list[FactChange]:
    """Return the history of a fact, oldest first. Raises `FactUnknown`."""
    fact = Fact.objects.get_known(user_id, fact_id)
    return list(fact.changes.order_by("at", "id"))


def page_facts(
    user_id: UserId,
    *,
    status: Status | None = "active",
    category: AnyCategory | None = None,
    source: Source | None = None,
    is_pinned: bool | None = None,
    as_of: datetime | None = None,
    after: FactCursor | None = None,
    limit: int = 20,
) -> tuple[list[Fact], bool]:
    """Return facts, newest first, and whether there are more.

    `status=None` means any. `after` is the cursor of the last fact of the previous
    page. With `as_of`, facts are returned as they were at that time, and `status`
    refers to that time too.
    """
    given = {"category": category, "source": source, "is_pinned": is_pinned}
    filters = {name: value for name, value in given.items() if value is not None}
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
        facts = Fact.objects.filter(user_id=user_id, **filters).with_status(status)
        rows = list(facts.newest_first(after)[: limit + 1])
    return rows[:limit], len(rows) > limit
