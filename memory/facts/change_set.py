"""Changes of a user's facts: collected, then written at once with their history."""

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from core.ids import UserId
from memory.facts.fact_validation import clean_text
from memory.models import Fact, FactChange, FactStatus
from memory.recall import passages
from memory.recall.types import Embedded

TRACKED_FIELDS = (
    "content",
    "category",
    "key",
    "importance",
    "status",
    "is_pinned",
    "source",
    "agent",
    "quote",
    "said_at",
    "valid_from",
    "valid_to",
    "expires_at",
    "superseded_by_id",
)
"""Fields of a fact that its history records."""
UPDATED_FIELDS = (*TRACKED_FIELDS, "message_id", "updated_at")

EmbeddingResult = tuple[Embedded | None, str]
"""A text's vector, or None and the reason."""
UNEMBEDDED: EmbeddingResult = (None, "")


class ChangeSet:
    """The changes of one transaction to the facts of one user.

    Only `write` accesses the database, with the same few queries for any number of
    changes.
    """

    def __init__(self, user_id: UserId, *, by: str, now: datetime) -> None:
        self.user_id = user_id
        self.now = now
        self._by = clean_text(by)[:300]
        self._created: dict[uuid.UUID, Fact] = {}
        self._changed: dict[uuid.UUID, Fact] = {}
        self._steps: list[FactChange] = []
        self._found: set[uuid.UUID] = set()
        """Facts that are searchable before the write."""
        self._texts: dict[uuid.UUID, EmbeddingResult] = {}
        """Facts whose text is new, or newly searchable."""

    def create(
        self,
        fact: Fact,
        *,
        action: str,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> None:
        """Record a new fact."""
        self._created[fact.id] = fact
        self._texts[fact.id] = text
        self._add_step(fact, action, reason, None, field_values(fact, TRACKED_FIELDS))

    def change(
        self,
        fact: Fact,
        values: dict[str, Any],
        *,
        action: str,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> bool:
        """Set a fact's fields and record the differences; return whether any differ."""
        changed = [name for name, new in values.items() if getattr(fact, name) != new]
        if not changed:
            return False
        before = field_values(fact, changed)
        self._mark_changed(fact)
        if "content" in changed or fact.status != values.get("status", fact.status):
            self._texts[fact.id] = text
        for name in changed:
            setattr(fact, name, values[name])
        self._add_step(fact, action, reason, before, field_values(fact, changed))
        return True

    def touch(self, fact: Fact, said_at: datetime) -> None:
        """Record that a fact was repeated, which adds no step to its history."""
        self._mark_changed(fact)
        fact.said_at = max(fact.said_at, said_at)

    def write(self) -> None:
        """Write the recorded changes. Call it once, inside the transaction."""
        if self._changed:
            Fact.objects.bulk_update(self._changed.values(), UPDATED_FIELDS)
        # After the updates: a new fact may take the key of a superseded one. Foreign
        # keys to it are checked at the end of the transaction.
        Fact.objects.bulk_create(self._created.values())
        FactChange.objects.bulk_create(self._steps)
        self._write_passages()

    def _write_passages(self) -> None:
        facts = {**self._changed, **self._created}
        active = [facts[key] for key in self._texts if facts[key].status == "active"]
        inactive = [key for key in self._found if facts[key].status != "active"]
        if active:
            passages.index_facts(
                self.user_id, [(f.id, f.content, *self._texts[f.id]) for f in active]
            )
        if inactive:
            passages.unindex_facts(self.user_id, inactive)

    def _mark_changed(self, fact: Fact) -> None:
        fact.updated_at = self.now
        if fact.id in self._created or fact.id in self._changed:
            return
        self._changed[fact.id] = fact
        if fact.status == FactStatus.ACTIVE:
            self._found.add(fact.id)

    def _add_step(
        self,
        fact: Fact,
        action: str,
        reason: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> None:
        self._steps.append(
            FactChange(
                fact_id=fact.id,
                user_id=self.user_id,
                at=self.now,
                action=action,
                by=self._by,
                reason=clean_text(reason)[:500],
                before=before,
                after=after,
            )
        )


def field_values(fact: Fact, names: Iterable[str]) -> dict[str, Any]:
    """Return fields of a fact as JSON values: instants in UTC, ids as text."""
    return {name: _to_json(getattr(fact, name)) for name in names}


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


def set_field_values(fact: Fact, values: dict[str, Any]) -> None:
    """Set fields of a fact, in memory only, to values returned by `field_values`."""
    for name, value in values.items():
        setattr(fact, name, _from_json(name, value))


def _from_json(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "superseded_by_id":
        return uuid.UUID(value)
    if name in ("said_at", "valid_from", "valid_to", "expires_at"):
        return datetime.fromisoformat(value)
    return value
