"""Stored facts that may be related to the drafts of one save."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.models import Q

from core.ids import UserId
from memory.facts.types import FactDraft
from memory.models import Fact, FactStatus
from memory.recall import search
from memory.recall.types import Embedded, Query

MAX_FORGOTTEN = 200
"""Forgotten facts that drafts are compared with, the last ones."""
MAX_NEIGHBOURS = 5
"""Candidates per draft by vectors, and as many by words."""


class CandidateFacts:
    """The facts similar to the drafts, and those created from earlier drafts."""

    def __init__(
        self,
        near: list[list[uuid.UUID]],
        active: Iterable[Fact],
        retired: Iterable[Fact],
    ) -> None:
        self._near = near
        self._active = {fact.id: fact for fact in active}
        self._retired = list(retired)
        self._added: list[Fact] = []

    def near(self, number: int) -> list[Fact]:
        """Return the active facts similar to the draft of that number, nearest
        first."""
        near = [self._active[key] for key in self._near[number] if key in self._active]
        return [fact for fact in (*near, *self._added) if _is_active(fact)]

    def by_id(self, fact_id: uuid.UUID | None) -> Fact | None:
        """Return the user's active fact with this id, if a draft refers to it."""
        fact = self._active.get(fact_id) if fact_id else None
        return fact if fact and _is_active(fact) else None

    def by_key(self, draft: FactDraft) -> Fact | None:
        """Return the active fact with the draft's category and key, or None."""
        if draft.key is None:
            return None
        for fact in (*self._active.values(), *self._added):
            has_key = (fact.category, fact.key) == (draft.category, draft.key)
            if has_key and _is_active(fact):
                return fact
        return None

    def retired(self, status: FactStatus, content: str) -> list[Fact]:
        """Return the inactive facts with that status and exactly this content."""
        return [
            fact
            for fact in self._retired
            if fact.status == status and fact.content == content
        ]

    def forgotten_since(self, said_at: datetime) -> list[Fact]:
        """Return the facts that were forgotten after a user said something."""
        return [
            fact
            for fact in self._retired
            if fact.status == FactStatus.DELETED and fact.updated_at >= said_at
        ]

    def is_new(self, fact: Fact) -> bool:
        """Return whether a fact was created from one of these drafts."""
        return any(fact is added for added in self._added)

    def add_held(self, fact: Fact) -> None:
        """Add a new fact that is pending review."""
        self._retired.append(fact)

    def add(self, fact: Fact) -> None:
        """Add a new fact as a candidate for the following drafts."""
        self._added.append(fact)


def load_candidates(
    user_id: UserId,
    drafts: Sequence[FactDraft],
    embedded: Sequence[Embedded | None],
    *,
    threshold: float,
    held: Fact | None = None,
) -> CandidateFacts:
    """Load the candidates for the drafts; `held` is the fact that a draft is of.

    Candidates have a vector at least as similar as `threshold`, or share words: many
    texts of the same meaning have less similar vectors. Neither decides about a match.
    """
    rules = _rule_ids(user_id) if any(draft.is_rule for draft in drafts) else []
    near = [
        rules if draft.is_rule else _near_ids(user_id, draft, vector, threshold)
        for draft, vector in zip(drafts, embedded, strict=True)
    ]
    retired = _load_retired(user_id, drafts)
    return CandidateFacts(
        near,
        _load_active(user_id, drafts, near),
        [fact for fact in retired if fact != held],
    )


def _rule_ids(user_id: UserId) -> list[uuid.UUID]:
    """Return all rules: they are few, and not searched."""
    facts = Fact.objects.filter(user_id=user_id, status=FactStatus.ACTIVE)
    rules = facts.filter(category="rule").newest_first()
    return list(rules.values_list("id", flat=True))


def _near_ids(
    user_id: UserId, draft: FactDraft, embedded: Embedded | None, threshold: float
) -> list[uuid.UUID]:
    ids = []
    if embedded is not None:
        nearest = search.nearest_facts(
            user_id, embedded, limit=MAX_NEIGHBOURS, scope=draft.scope
        )
        ids += [key for key, similarity in nearest if similarity >= threshold]
    word_matches = search.search_facts(
        user_id, Query(draft.content), limit=MAX_NEIGHBOURS, scope=draft.scope
    )
    ids += [f.fact.id for f in word_matches if f.fact.category != "episode"]
    return list(dict.fromkeys(ids))


def _load_active(
    user_id: UserId, drafts: Sequence[FactDraft], near: list[list[uuid.UUID]]
) -> Iterable[Fact]:
    superseded_ids = {draft.supersedes for draft in drafts if draft.supersedes}
    keys = [Q(category=d.category, key=d.key) for d in drafts if d.key is not None]
    condition = reduce(or_, keys, Q(id__in=superseded_ids.union(*near)))
    scopes = {draft.scope for draft in drafts}
    return Fact.objects.filter(
        condition, user_id=user_id, status=FactStatus.ACTIVE, scope__in=scopes
    )


def _load_retired(user_id: UserId, drafts: Sequence[FactDraft]) -> Iterable[Fact]:
    scopes = {draft.scope for draft in drafts}
    facts = Fact.objects.filter(user_id=user_id, scope__in=scopes)
    yield from facts.filter(
        status__in=[FactStatus.PENDING_REVIEW, FactStatus.SUPERSEDED],
        content__in=[draft.content for draft in drafts],
    )
    # Of any content, because wordings differ. For a new turn there are hardly any.
    said = [draft.said_at for draft in drafts if draft.said_at is not None]
    if said:
        deleted = facts.filter(status=FactStatus.DELETED, updated_at__gte=min(said))
        yield from deleted.order_by("-updated_at")[:MAX_FORGOTTEN]


def _is_active(fact: Fact) -> bool:
    return fact.status == FactStatus.ACTIVE
