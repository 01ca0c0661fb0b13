"""Reconciliation of drafts with stored facts: repeated, changed, or new.

docs/facts.md describes the rules in their order. A wrong merge is worse than a
duplicate, so a doubtful draft becomes a separate fact.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from core.ids import UserId
from memory.facts import fact_validation
from memory.facts.candidate_facts import CandidateFacts
from memory.facts.text_comparison import equivalence
from memory.facts.types import FactDraft, SaveResult
from memory.models import Fact, FactStatus
from memory.models.fact_changes import TRACKED_FIELDS, field_values
from memory.models.fact_choices import HUMAN_SOURCES, HeldFor
from memory.models.facts import END_FIELDS
from memory.recall.types import UNEMBEDDED, EmbeddingResult


class FactReconciler:
    """Reconciles drafts one by one; `facts` has the new and changed facts."""

    def __init__(
        self,
        user_id: UserId,
        candidates: CandidateFacts,
        *,
        by: str,
        now: datetime,
        held: Fact | None = None,
    ) -> None:
        """With `held`, the only draft is that fact, which becomes what it adds."""
        self.facts: list[Fact] = []
        self._held = held
        self._before = {} if held is None else field_values(held, TRACKED_FIELDS)
        self._user_id = user_id
        self._candidates = candidates
        self._by = by
        self._now = now

    def reconcile(
        self, draft: FactDraft, number: int, text: EmbeddingResult
    ) -> SaveResult:
        """Reconcile a draft, which must have a `said_at`, and record the result."""
        near = self._candidates.near(number)
        candidates = [fact for fact in near if fact.is_rule == draft.is_rule]
        if draft.review_reason or draft.held_for:
            if past := self._find_past(draft):
                return SaveResult(past.id, "outdated")
            return self._hold(draft, candidates)
        saved = self._apply_rules(draft, candidates, text)
        ended = self._find_superseded(draft)
        if ended is None or ended.id == saved.fact_id:
            return saved
        # The draft repeats a stored fact; what it supersedes still ends.
        if saved.outcome not in ("updated", "unchanged") or not _can_end(ended, draft):
            return saved
        self._end_fact(ended, saved.fact_id, draft)
        return SaveResult(saved.fact_id, "superseded", ended.id)

    def _apply_rules(
        self, draft: FactDraft, candidates: list[Fact], text: EmbeddingResult
    ) -> SaveResult:
        if past := self._find_past(draft):
            return SaveResult(past.id, "outdated")
        rules = len(candidates) if draft.is_rule else 0
        if keyed := self._candidates.by_key(draft):
            return self._upsert(keyed, draft, text)
        candidates = [fact for fact in candidates if _keys_agree(fact, draft)]
        for fact in candidates:
            if equivalence.is_identical(fact.content, draft.content):
                return self._confirm(fact, draft)
        if ended := self._find_superseded(draft):
            return self._supersede([ended], draft, text)
        if rules >= fact_validation.MAX_RULES:
            return self._flag_for_review(
                draft, HeldFor.LIMIT, fact_validation.TOO_MANY_RULES
            )
        if draft.is_rule:
            # Wordings of wishes are too alike to be compared: "in German", "in French".
            return self._create(draft, text)
        return self._compare(draft, candidates, text)

    def _find_superseded(self, draft: FactDraft) -> Fact | None:
        """Return the fact that a draft ends by its id; rules end only rules."""
        fact = self._candidates.by_id(draft.supersedes)
        return fact if fact and fact.is_rule == draft.is_rule else None

    def _compare(
        self, draft: FactDraft, candidates: list[Fact], text: EmbeddingResult
    ) -> SaveResult:
        changed = []
        for fact in candidates:
            match equivalence.compare_texts(fact.content, draft.content):
                case "same":
                    return self._reword(fact, draft, text)
                # Drafts of the same save do not replace each other.
                case "changed" if not draft.was_past and not self._candidates.is_new(
                    fact
                ):
                    changed.append(fact)
        if changed:
            return self._supersede(changed, draft, text)
        return self._create(draft, text)

    def _find_past(self, draft: FactDraft) -> Fact | None:
        """Return the fact that was forgotten after the user said what a draft states.

        Or the same words, superseded since: that fact stays in the past, even if the
        one that superseded it is forgotten.
        """
        if draft.source in HUMAN_SOURCES:
            return None
        for fact in self._candidates.forgotten_since(draft.stated_at):
            if equivalence.is_identical(fact.content, draft.content) or (
                equivalence.compare_texts(fact.content, draft.content) == "same"
            ):
                return fact
        for fact in self._candidates.retired(FactStatus.SUPERSEDED, draft.content):
            if fact.said_at >= draft.stated_at:
                return fact
        return None

    def _upsert(
        self, fact: Fact, draft: FactDraft, text: EmbeddingResult
    ) -> SaveResult:
        if equivalence.is_identical(fact.content, draft.content):
            return self._confirm(fact, draft)
        if fact.said_at > draft.stated_at:
            return self._store_outdated(draft, fact)
        if _is_protected(fact, draft):
            return self._flag_conflict(draft, fact)
        values = {**draft.source_values, **draft.date_values}
        values["importance"] = draft.importance
        values["is_pinned"] = fact.is_pinned or draft.is_pinned
        self._change(fact, values, text=text)
        return SaveResult(fact.id, "updated")

    def _confirm(self, fact: Fact, draft: FactDraft) -> SaveResult:
        """Record that a fact was repeated, possibly with more importance."""
        values = {} if _is_protected(fact, draft) else self._merged_values(fact, draft)
        fact.repeat(draft.stated_at, at=self._now)
        is_changed = self._change(fact, values)
        return SaveResult(fact.id, "updated" if is_changed else "unchanged")

    def _reword(
        self, fact: Fact, draft: FactDraft, text: EmbeddingResult
    ) -> SaveResult:
        if _is_protected(fact, draft) or fact.said_at > draft.stated_at:
            return self._confirm(fact, draft)
        values = {**draft.source_values, **self._merged_values(fact, draft)}
        self._change(fact, values, text=text)
        return SaveResult(fact.id, "updated")

    def _change(
        self, fact: Fact, values: dict[str, Any], text: EmbeddingResult = UNEMBEDDED
    ) -> bool:
        self.facts.append(fact)
        return fact.change(values, "updated", by=self._by, at=self._now, text=text)

    def _merged_values(self, fact: Fact, draft: FactDraft) -> dict[str, Any]:
        """Return the values that a draft adds to a fact with the same meaning."""
        values: dict[str, Any] = {
            "importance": max(fact.importance, draft.importance),
            "is_pinned": fact.is_pinned or draft.is_pinned,
        }
        if draft.source in HUMAN_SOURCES:
            values["source"] = draft.source
        if draft.key is not None:
            values |= {"category": draft.category, "key": draft.key}
        if fact.said_at <= draft.stated_at:
            values |= self._later_dates(fact, draft)
        return values

    def _later_dates(self, fact: Fact, draft: FactDraft) -> dict[str, Any]:
        given: dict[str, Any] = {
            name: at for name, at in draft.date_values.items() if at is not None
        }
        if fact.expires_at is not None and fact.expires_at <= self._now:
            given.setdefault("expires_at", None)
        start = given.get("valid_from", fact.valid_from)
        ends = (given.get(name, getattr(fact, name)) for name in END_FIELDS)
        fits = all(start is None or end is None or start < end for end in ends)
        return given if fits else {}

    def _supersede(
        self, superseded: Sequence[Fact], draft: FactDraft, text: EmbeddingResult
    ) -> SaveResult:
        latest = max(superseded, key=lambda fact: fact.said_at)
        if latest.said_at > draft.stated_at:
            return self._store_outdated(draft, latest)
        for fact in superseded:
            if _is_protected(fact, draft):
                return self._flag_conflict(draft, fact)
        new = self._build_fact(draft, FactStatus.ACTIVE)
        for fact in superseded:
            self._end_fact(fact, new.id, draft)
        _inherit_key(new, superseded)
        self._record_creation(new, "created", text=text)
        self._candidates.add(new)
        return SaveResult(new.id, "superseded", superseded[0].id)

    def _end_fact(self, fact: Fact, new_id: uuid.UUID, draft: FactDraft) -> None:
        """Record that a fact is superseded, now or from a later day on."""
        since = draft.valid_from or draft.stated_at
        self.facts.append(fact)
        fact.supersede(
            new_id, since, by=self._by, at=self._now, new_content=draft.content
        )

    def _store_outdated(self, draft: FactDraft, newer: Fact) -> SaveResult:
        """Store a draft as superseded by a newer fact."""
        for fact in self._candidates.retired(FactStatus.SUPERSEDED, draft.content):
            if fact.superseded_by_id == newer.id:
                return SaveResult(fact.id, "outdated")
        past = self._build_fact(draft, FactStatus.SUPERSEDED)
        past.superseded_by_id = newer.id
        past.end(newer.valid_from or newer.said_at)
        self._record_creation(past, "outdated", f"older than: {newer.content}")
        return SaveResult(past.id, "outdated")

    def _hold(self, draft: FactDraft, candidates: Sequence[Fact]) -> SaveResult:
        """Hold a draft, unless an active fact has the same words."""
        for fact in candidates:
            if equivalence.is_identical(fact.content, draft.content):
                fact.repeat(draft.stated_at, at=self._now)
                self.facts.append(fact)
                return SaveResult(fact.id, "unchanged")
        if draft.review_reason:
            return self._flag_for_review(draft, HeldFor.INJECTION, draft.review_reason)
        return self._flag_for_review(draft, HeldFor(draft.held_for))

    def _flag_conflict(self, draft: FactDraft, fact: Fact) -> SaveResult:
        return self._flag_for_review(draft, HeldFor.CONFLICT, _conflict_reason(fact))

    def _flag_for_review(
        self, draft: FactDraft, held_for: HeldFor, reason: str = ""
    ) -> SaveResult:
        for fact in self._candidates.retired(FactStatus.PENDING_REVIEW, draft.content):
            fact.repeat(draft.stated_at, at=self._now)
            self.facts.append(fact)
            return SaveResult(fact.id, "pending_review")
        fact = self._build_fact(draft, FactStatus.PENDING_REVIEW, held_for.value)
        self._record_creation(fact, "flagged", reason)
        self._candidates.add_held(fact)
        return SaveResult(fact.id, "pending_review")

    def _create(self, draft: FactDraft, text: EmbeddingResult) -> SaveResult:
        fact = self._build_fact(draft, FactStatus.ACTIVE)
        self._record_creation(fact, "created", text=text)
        self._candidates.add(fact)
        return SaveResult(fact.id, "created")

    def _record_creation(
        self,
        fact: Fact,
        action: str,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> None:
        self.facts.append(fact)
        if fact is not self._held:
            fact.record_creation(action, by=self._by, reason=reason, text=text)
            return
        action = "accepted" if action == "created" else action
        fact.record_acceptance(
            self._before, action, by=self._by, at=self._now, reason=reason, text=text
        )

    def _build_fact(
        self, draft: FactDraft, status: FactStatus, held_for: str = ""
    ) -> Fact:
        if self._held is not None:
            self._held.status, self._held.held_for = status.value, held_for
            return self._held
        return Fact(
            user_id=self._user_id,
            category=draft.category,
            key=draft.key,
            importance=draft.importance,
            is_pinned=draft.is_pinned,
            status=status.value,
            held_for=held_for,
            replaces_id=draft.supersedes if held_for else None,
            created_at=self._now,
            updated_at=self._now,
            **draft.source_values,
            **draft.date_values,
        )


def _is_protected(fact: Fact, draft: FactDraft) -> bool:
    """Return whether a draft is inferred while a person set the fact."""
    is_inferred = draft.source == "extraction" and not draft.is_accepted
    return is_inferred and fact.was_set_by_person


def _can_end(fact: Fact, draft: FactDraft) -> bool:
    return not _is_protected(fact, draft) and fact.said_at <= draft.stated_at


def _keys_agree(fact: Fact, draft: FactDraft) -> bool:
    """Return whether the keys allow a match: different keys mean different facts."""
    return (
        fact.key is None
        or draft.key is None
        or (fact.category, fact.key) == (draft.category, draft.key)
    )


def _inherit_key(new: Fact, superseded: Sequence[Fact]) -> None:
    for old in superseded:
        if new.key is None and old.key is not None and old.status != FactStatus.ACTIVE:
            new.category, new.key = old.category, old.key


def _conflict_reason(fact: Fact) -> str:
    if fact.is_pinned:
        return f"conflicts with a pinned fact: {fact.content}"
    return f"conflicts with a fact from the {fact.source}: {fact.content}"
