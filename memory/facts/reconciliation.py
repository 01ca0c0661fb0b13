"""Reconciliation of drafts with stored facts: repeated, changed, or new.

docs/facts.md describes the rules in their order. A wrong merge is worse than a
duplicate, so a doubtful draft becomes a separate fact.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memory.facts.candidate_facts import CandidateFacts
from memory.facts.change_set import ChangeSet, EmbeddingResult
from memory.facts.text_comparison import equivalence
from memory.facts.types import FactDraft, SaveResult
from memory.models import Fact, FactStatus

HUMAN_SOURCES = ("user", "operator")
"""Sources whose facts extraction cannot change."""


class FactReconciler:
    """Reconciles drafts one by one and records the results in the change set."""

    def __init__(self, change_set: ChangeSet, candidates: CandidateFacts) -> None:
        self._change_set = change_set
        self._candidates = candidates

    def reconcile(
        self, draft: FactDraft, number: int, text: EmbeddingResult
    ) -> SaveResult:
        """Reconcile a draft and record the result; the draft must have a `said_at`."""
        candidates = self._candidates.near(number)
        if draft.review_reason:
            return self._flag_for_review(draft, draft.review_reason, candidates)
        saved = self._apply_rules(draft, candidates, text)
        ended = self._candidates.by_id(draft.supersedes)
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
        if forgotten := self._find_deleted(draft):
            return SaveResult(forgotten.id, "outdated")
        if keyed := self._candidates.by_key(draft):
            return self._upsert(keyed, draft, text)
        candidates = [fact for fact in candidates if _keys_agree(fact, draft)]
        for fact in candidates:
            if equivalence.is_identical(fact.content, draft.content):
                return self._confirm(fact, draft)
        if ended := self._candidates.by_id(draft.supersedes):
            return self._supersede([ended], draft, text)
        return self._compare(draft, candidates, text)

    def _compare(
        self, draft: FactDraft, candidates: list[Fact], text: EmbeddingResult
    ) -> SaveResult:
        changed = []
        for fact in candidates:
            match equivalence.compare_texts(fact.content, draft.content):
                case "same":
                    return self._reword(fact, draft, text)
                # Drafts of the same save do not replace each other.
                case "changed" if not _was_past(draft) and not self._candidates.is_new(
                    fact
                ):
                    changed.append(fact)
        if changed:
            return self._supersede(changed, draft, text)
        return self._create(draft, text)

    def _find_deleted(self, draft: FactDraft) -> Fact | None:
        """Return the fact that the user deleted after saying what this draft states."""
        if draft.source in HUMAN_SOURCES:
            return None
        for fact in self._candidates.retired(FactStatus.DELETED, draft.content):
            if fact.updated_at >= require_said_at(draft):
                return fact
        return None

    def _upsert(
        self, fact: Fact, draft: FactDraft, text: EmbeddingResult
    ) -> SaveResult:
        if equivalence.is_identical(fact.content, draft.content):
            return self._confirm(fact, draft)
        if fact.said_at > require_said_at(draft):
            return self._store_outdated(draft, fact)
        if _is_protected(fact, draft):
            return self._flag_for_review(draft, _conflict_reason(fact))
        values = {
            **source_values(draft),
            "importance": draft.importance,
            **date_values(draft),
        }
        values["is_pinned"] = fact.is_pinned or draft.is_pinned
        self._change_set.change(fact, values, action="updated", text=text)
        return SaveResult(fact.id, "updated")

    def _confirm(self, fact: Fact, draft: FactDraft) -> SaveResult:
        """Record that a fact was repeated, possibly with more importance."""
        values = {} if _is_protected(fact, draft) else self._merged_values(fact, draft)
        self._change_set.touch(fact, require_said_at(draft))
        if self._change_set.change(fact, values, action="updated"):
            return SaveResult(fact.id, "updated")
        return SaveResult(fact.id, "unchanged")

    def _reword(
        self, fact: Fact, draft: FactDraft, text: EmbeddingResult
    ) -> SaveResult:
        if _is_protected(fact, draft) or fact.said_at > require_said_at(draft):
            return self._confirm(fact, draft)
        values = {**source_values(draft), **self._merged_values(fact, draft)}
        self._change_set.change(fact, values, action="updated", text=text)
        return SaveResult(fact.id, "updated")

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
        if fact.said_at <= require_said_at(draft):
            values |= self._later_dates(fact, draft)
        return values

    def _later_dates(self, fact: Fact, draft: FactDraft) -> dict[str, Any]:
        given: dict[str, Any] = {
            name: at for name, at in date_values(draft).items() if at is not None
        }
        if fact.expires_at is not None and fact.expires_at <= self._change_set.now:
            given.setdefault("expires_at", None)
        start = given.get("valid_from", fact.valid_from)
        ends = (given.get(name, getattr(fact, name)) for name in END_FIELDS)
        fits = all(start is None or end is None or start < end for end in ends)
        return given if fits else {}

    def _supersede(
        self, superseded: Sequence[Fact], draft: FactDraft, text: EmbeddingResult
    ) -> SaveResult:
        latest = max(superseded, key=lambda fact: fact.said_at)
        if latest.said_at > require_said_at(draft):
            return self._store_outdated(draft, latest)
        for fact in superseded:
            if _is_protected(fact, draft):
                return self._flag_for_review(draft, _conflict_reason(fact))
        new = self._build_fact(draft, FactStatus.ACTIVE)
        for fact in superseded:
            self._end_fact(fact, new.id, draft)
        _inherit_key(new, superseded)
        self._change_set.create(new, action="created", text=text)
        self._candidates.add(new)
        return SaveResult(new.id, "superseded", superseded[0].id)

    def _end_fact(self, fact: Fact, new_id: uuid.UUID, draft: FactDraft) -> None:
        """Record that a fact is superseded, now or from a later day on."""
        end = draft.valid_from or require_said_at(draft)
        values: dict[str, Any] = {"superseded_by_id": new_id}
        if end <= self._change_set.now:
            values["status"] = FactStatus.SUPERSEDED.value
        if _is_between(fact.valid_from, end, fact.valid_to):
            values["valid_to"] = end
        reason = f"superseded by: {draft.content}"
        self._change_set.change(fact, values, action="superseded", reason=reason)

    def _store_outdated(self, draft: FactDraft, newer: Fact) -> SaveResult:
        """Store a draft as superseded by a newer fact."""
        for fact in self._candidates.retired(FactStatus.SUPERSEDED, draft.content):
            if fact.superseded_by_id == newer.id:
                return SaveResult(fact.id, "outdated")
        past = self._build_fact(draft, FactStatus.SUPERSEDED)
        past.superseded_by_id = newer.id
        end = newer.valid_from or newer.said_at
        if _is_between(past.valid_from, end, past.valid_to):
            past.valid_to = end
        reason = f"older than: {newer.content}"
        self._change_set.create(past, action="outdated", reason=reason)
        return SaveResult(past.id, "outdated")

    def _flag_for_review(
        self, draft: FactDraft, reason: str, candidates: Sequence[Fact] = ()
    ) -> SaveResult:
        for fact in candidates:
            if equivalence.is_identical(fact.content, draft.content):
                return SaveResult(fact.id, "unchanged")
        for fact in self._candidates.retired(FactStatus.PENDING_REVIEW, draft.content):
            return SaveResult(fact.id, "pending_review")
        fact = self._build_fact(draft, FactStatus.PENDING_REVIEW)
        self._change_set.create(fact, action="flagged", reason=reason)
        return SaveResult(fact.id, "pending_review")

    def _create(self, draft: FactDraft, text: EmbeddingResult) -> SaveResult:
        fact = self._build_fact(draft, FactStatus.ACTIVE)
        self._change_set.create(fact, action="created", text=text)
        self._candidates.add(fact)
        return SaveResult(fact.id, "created")

    def _build_fact(self, draft: FactDraft, status: FactStatus) -> Fact:
        now = self._change_set.now
        return Fact(
            user_id=self._change_set.user_id,
            category=draft.category,
            key=draft.key,
            importance=draft.importance,
            is_pinned=draft.is_pinned,
            status=status.value,
            created_at=now,
            updated_at=now,
            **source_values(draft),
            **date_values(draft),
        )


END_FIELDS = ("valid_to", "expires_at")


def source_values(draft: FactDraft) -> dict[str, Any]:
    """Return the source fields of a draft."""
    return {
        "content": draft.content,
        "source": draft.source,
        "agent": draft.agent,
        "quote": draft.quote,
        "message_id": draft.message_id,
        "said_at": require_said_at(draft),
    }


def date_values(draft: FactDraft) -> dict[str, datetime | None]:
    return {
        "valid_from": draft.valid_from,
        "valid_to": draft.valid_to,
        "expires_at": draft.expires_at,
    }


def require_said_at(draft: FactDraft) -> datetime:
    assert draft.said_at is not None  # noqa: S101  `save_drafts` sets it
    return draft.said_at


def _was_past(draft: FactDraft) -> bool:
    """Return whether a draft's validity had ended before the user stated it."""
    return draft.valid_to is not None and draft.valid_to <= require_said_at(draft)


def _is_protected(fact: Fact, draft: FactDraft) -> bool:
    """Return whether a draft is inferred while a person set the fact."""
    return draft.source == "extraction" and (
        fact.is_pinned or fact.source in HUMAN_SOURCES
    )


def _can_end(fact: Fact, draft: FactDraft) -> bool:
    return not _is_protected(fact, draft) and fact.said_at <= require_said_at(draft)


def _keys_agree(fact: Fact, draft: FactDraft) -> bool:
    """Return whether the keys allow a match: different keys mean different facts."""
    return (
        fact.key is None
        or draft.key is None
        or (fact.category, fact.key) == (draft.category, draft.key)
    )


def _inherit_key(new: Fact, superseded: Sequence[Fact]) -> None:
    """Give a new fact the key of the fact it supersedes."""
    for old in superseded:
        if new.key is None and old.key is not None and old.status != FactStatus.ACTIVE:
            new.category, new.key = old.category, old.key


def _is_between(start: datetime | None, at: datetime, end: datetime | None) -> bool:
    return (start is None or start < at) and (end is None or at < end)


def _conflict_reason(fact: Fact) -> str:
    if fact.is_pinned:
        return f"conflicts with a pinned fact: {fact.content}"
    return f"conflicts with a fact from the {fact.source}: {fact.content}"
