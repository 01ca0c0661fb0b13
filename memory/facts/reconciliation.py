"""Where a draft belongs among what is known: said already, changed, or new.

The rules, in their order, are those of docs/facts.md. A wrong merge is worse than a
duplicate, so what is in doubt becomes a fact of its own.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memory.facts.candidate_facts import Board
from memory.facts.change_set import Embedding, Ledger
from memory.facts.text_comparison import equivalence
from memory.models import Fact, Status
from memory.types import Draft, Saved

PERSONS = ("user", "operator")
"""What they said themselves, no extraction changes."""


class Ladder:
    """Takes drafts one by one and notes in the ledger what becomes of them."""

    def __init__(self, ledger: Ledger, board: Board) -> None:
        self._ledger = ledger
        self._board = board

    def reconcile(self, draft: Draft, number: int, text: Embedding) -> Saved:
        """Find the draft its place and note it; the draft has a `said_at`."""
        candidates = self._board.near(number)
        if draft.review_reason:
            return self._hold_for_review(draft, draft.review_reason, candidates)
        saved = self._apply_rules(draft, candidates, text)
        ended = self._board.by_id(draft.supersedes)
        if ended is None or ended.id == saved.fact_id:
            return saved
        # It turned out to be a fact known already; what it ends, ends all the same.
        if saved.outcome not in ("updated", "unchanged") or not _may_end(ended, draft):
            return saved
        self._end_fact(ended, saved.fact_id, draft)
        return Saved(saved.fact_id, "superseded", ended.id)

    def _apply_rules(self, draft: Draft, candidates: list[Fact], text: Embedding) -> Saved:
        if forgotten := self._find_deleted(draft):
            return Saved(forgotten.id, "outdated")
        if keyed := self._board.by_key(draft):
            return self._upsert(keyed, draft, text)
        candidates = [fact for fact in candidates if _keys_agree(fact, draft)]
        for fact in candidates:
            if equivalence.is_identical(fact.content, draft.content):
                return self._confirm(fact, draft)
        if ended := self._board.by_id(draft.supersedes):
            return self._supersede([ended], draft, text)
        return self._compare(draft, candidates, text)

    def _compare(self, draft: Draft, candidates: list[Fact], text: Embedding) -> Saved:
        changed = []
        for fact in candidates:
            match equivalence.compare(fact.content, draft.content):
                case "same":
                    return self._reword(fact, draft, text)
                # Of what is said in one breath, nothing takes another's place.
                case "changed" if not _is_past(draft) and not self._board.is_new(fact):
                    changed.append(fact)
        if changed:
            return self._supersede(changed, draft, text)
        return self._create(draft, text)

    def _find_deleted(self, draft: Draft) -> Fact | None:
        """Return the fact a user had forgotten after saying what is only read now."""
        if draft.source in PERSONS:
            return None
        for fact in self._board.retired(Status.DELETED, draft.content):
            if fact.updated_at >= said_at(draft):
                return fact
        return None

    def _upsert(self, fact: Fact, draft: Draft, text: Embedding) -> Saved:
        if equivalence.is_identical(fact.content, draft.content):
            return self._confirm(fact, draft)
        if fact.said_at > said_at(draft):
            return self._store_outdated(draft, fact)
        if _is_protected(fact, draft):
            return self._hold_for_review(draft, _conflict(fact))
        values = {**said(draft), "importance": draft.importance, **dates(draft)}
        values["is_pinned"] = fact.is_pinned or draft.is_pinned
        self._ledger.change(fact, values, action="updated", text=text)
        return Saved(fact.id, "updated")

    def _confirm(self, fact: Fact, draft: Draft) -> Saved:
        """Note that a fact was said again, perhaps with more weight."""
        values = {} if _is_protected(fact, draft) else self._merged_values(fact, draft)
        self._ledger.touch(fact, said_at(draft))
        if self._ledger.change(fact, values, action="updated"):
            return Saved(fact.id, "updated")
        return Saved(fact.id, "unchanged")

    def _reword(self, fact: Fact, draft: Draft, text: Embedding) -> Saved:
        if _is_protected(fact, draft) or fact.said_at > said_at(draft):
            return self._confirm(fact, draft)
        values = {**said(draft), **self._merged_values(fact, draft)}
        self._ledger.change(fact, values, action="updated", text=text)
        return Saved(fact.id, "updated")

    def _merged_values(self, fact: Fact, draft: Draft) -> dict[str, Any]:
        """Return what a draft adds to a fact that says the same."""
        values: dict[str, Any] = {
            "importance": max(fact.importance, draft.importance),
            "is_pinned": fact.is_pinned or draft.is_pinned,
        }
        if draft.source in PERSONS:
            values["source"] = draft.source
        if draft.key is not None:
            values |= {"category": draft.category, "key": draft.key}
        if fact.said_at <= said_at(draft):
            values |= self._later_dates(fact, draft)
        return values

    def _later_dates(self, fact: Fact, draft: Draft) -> dict[str, Any]:
        given: dict[str, Any] = {
            name: at for name, at in dates(draft).items() if at is not None
        }
        if fact.expires_at is not None and fact.expires_at <= self._ledger.now:
            given.setdefault("expires_at", None)
        start = given.get("valid_from", fact.valid_from)
        ends = (given.get(name, getattr(fact, name)) for name in ENDS)
        fits = all(start is None or end is None or start < end for end in ends)
        return given if fits else {}

    def _supersede(self, olds: Sequence[Fact], draft: Draft, text: Embedding) -> Saved:
        latest = max(olds, key=lambda fact: fact.said_at)
        if latest.said_at > said_at(draft):
            return self._store_outdated(draft, latest)
        for fact in olds:
            if _is_protected(fact, draft):
                return self._hold_for_review(draft, _conflict(fact))
        new = self._build_fact(draft, Status.ACTIVE)
        for fact in olds:
            self._end_fact(fact, new.id, draft)
        _inherit_key(new, olds)
        self._ledger.create(new, action="created", text=text)
        self._board.add(new)
        return Saved(new.id, "superseded", olds[0].id)

    def _end_fact(self, fact: Fact, new_id: uuid.UUID, draft: Draft) -> None:
        """Note that a fact gives way to another, at once or from a later day on."""
        end = draft.valid_from or said_at(draft)
        values: dict[str, Any] = {"superseded_by_id": new_id}
        if end <= self._ledger.now:
            values["status"] = Status.SUPERSEDED.value
        if _is_between(fact.valid_from, end, fact.valid_to):
            values["valid_to"] = end
        reason = f"now: {draft.content}"
        self._ledger.change(fact, values, action="superseded", reason=reason)

    def _store_outdated(self, draft: Draft, newer: Fact) -> Saved:
        """Keep a draft as the past of a fact that was said after it."""
        for fact in self._board.retired(Status.SUPERSEDED, draft.content):
            if fact.superseded_by_id == newer.id:
                return Saved(fact.id, "outdated")
        past = self._build_fact(draft, Status.SUPERSEDED)
        past.superseded_by_id = newer.id
        end = newer.valid_from or newer.said_at
        if _is_between(past.valid_from, end, past.valid_to):
            past.valid_to = end
        reason = f"said before: {newer.content}"
        self._ledger.create(past, action="outdated", reason=reason)
        return Saved(past.id, "outdated")

    def _hold_for_review(
        self, draft: Draft, reason: str, candidates: Sequence[Fact] = ()
    ) -> Saved:
        for fact in candidates:
            if equivalence.is_identical(fact.content, draft.content):
                return Saved(fact.id, "unchanged")
        for fact in self._board.retired(Status.HELD, draft.content):
            return Saved(fact.id, "held")
        held = self._build_fact(draft, Status.HELD)
        self._ledger.create(held, action="held", reason=reason)
        return Saved(held.id, "held")

    def _create(self, draft: Draft, text: Embedding) -> Saved:
        fact = self._build_fact(draft, Status.ACTIVE)
        self._ledger.create(fact, action="created", text=text)
        self._board.add(fact)
        return Saved(fact.id, "created")

    def _build_fact(self, draft: Draft, status: Status) -> Fact:
        now = self._ledger.now
        return Fact(
            user_id=self._ledger.user_id,
            category=draft.category,
            key=draft.key,
            importance=draft.importance,
            is_pinned=draft.is_pinned,
            status=status.value,
            created_at=now,
            updated_at=now,
            **said(draft),
            **dates(draft),
        )


ENDS = ("valid_to", "expires_at")


def said(draft: Draft) -> dict[str, Any]:
    """Return what was said, by whom, and where."""
    return {
        "content": draft.content,
        "source": draft.source,
        "agent": draft.agent,
        "quote": draft.quote,
        "message_id": draft.message_id,
        "said_at": said_at(draft),
    }


def dates(draft: Draft) -> dict[str, datetime | None]:
    return {
        "valid_from": draft.valid_from,
        "valid_to": draft.valid_to,
        "expires_at": draft.expires_at,
    }


def said_at(draft: Draft) -> datetime:
    assert draft.said_at is not None  # noqa: S101  `facts.save` has seen to it
    return draft.said_at


def _is_past(draft: Draft) -> bool:
    """Return whether a draft tells of what was over when it was said."""
    return draft.valid_to is not None and draft.valid_to <= said_at(draft)


def _is_protected(fact: Fact, draft: Draft) -> bool:
    """Return whether a draft was only inferred, and the fact put there by a person."""
    return draft.source == "extraction" and (fact.is_pinned or fact.source in PERSONS)


def _may_end(fact: Fact, draft: Draft) -> bool:
    return not _is_protected(fact, draft) and fact.said_at <= said_at(draft)


def _keys_agree(fact: Fact, draft: Draft) -> bool:
    """Return whether the two may be one fact: two keys name two facts."""
    return (
        fact.key is None
        or draft.key is None
        or (fact.category, fact.key) == (draft.category, draft.key)
    )


def _inherit_key(new: Fact, olds: Sequence[Fact]) -> None:
    """Have a new fact go on under the key of the one that gave way to it."""
    for old in olds:
        if new.key is None and old.key is not None and old.status != Status.ACTIVE:
            new.category, new.key = old.category, old.key


def _is_between(start: datetime | None, at: datetime, end: datetime | None) -> bool:
    return (start is None or start < at) and (end is None or at < end)


def _conflict(fact: Fact) -> str:
    owner = "is pinned" if fact.is_pinned else f"the {fact.source} entered"
    return f"it would change a fact that {owner}: {fact.content}"
