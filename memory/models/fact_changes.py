"""The model of facts' history, and how changes of a fact are recorded."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import models

from config import retention
from memory.facts import fact_validation
from memory.models.fact_choices import FactCategory, FactStatus, HeldFor
from memory.recall.types import UNEMBEDDED, EmbeddingResult

MAX_EXPIRED = 1_000
"""Rows that are looked at for one batch."""
TIME_FIELDS = ("said_at", "valid_from", "valid_to", "expires_at")
TRACKED_FIELDS = (
    "content",
    "category",
    "key",
    "importance",
    "status",
    "held_for",
    "is_pinned",
    "source",
    "agent",
    "quote",
    *TIME_FIELDS,
    "superseded_by_id",
)
"""Fields of a fact that its history records."""


class FactChangeQuerySet(models.QuerySet["FactChange"]):
    def expired(self, now: datetime) -> "FactChangeQuerySet":
        """Return those of the oldest steps past `retention.fact_changes_days`.

        Only these are looked at, because there is no index of times.
        """
        oldest = self.order_by("pk").values("pk")[:MAX_EXPIRED]
        rows = self.filter(pk__in=oldest)
        return retention.older_rows(rows, "fact_changes_days", "at", now)


class FactChange(models.Model):
    """One step in the history of a fact: who, when, why, before and after."""

    fact = models.ForeignKey(
        "memory.Fact", on_delete=models.CASCADE, related_name="changes"
    )
    user_id = models.UUIDField()
    at = models.DateTimeField()
    action = models.CharField(max_length=16)
    """created, updated, superseded, outdated, flagged (for review), accepted, restored,
    pinned, unpinned, expired, deleted."""
    by = models.CharField(max_length=300)
    """`extraction`, `agent:NAME`, `user`, `mcp` (a client at /mcp), `operator`, or
    `session` (its end), or `import`."""
    reason = models.CharField(max_length=500, blank=True, default="")
    before: Any = models.JSONField(null=True)
    after: Any = models.JSONField(null=True)

    objects = FactChangeQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["user_id", "at"], name="memory_change_of_user"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.by}"

    def undo(self, fact: models.Model) -> None:
        """Set the fact's fields, in memory only, to their values before this step."""
        for name, value in (self.before or {}).items():
            setattr(fact, name, _from_json(name, value))


def field_values(fact: models.Model, names: Iterable[str]) -> dict[str, Any]:
    """Return fields of a fact as JSON values: instants in UTC, ids as text."""
    return {name: _to_json(getattr(fact, name)) for name in names}


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


def _from_json(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "superseded_by_id":
        return uuid.UUID(value)
    return datetime.fromisoformat(value) if name in TIME_FIELDS else value


@dataclass
class UnsavedChanges:
    was_searchable: bool
    """Whether the stored fact is searchable."""
    steps: list[FactChange] = field(default_factory=list)
    text: EmbeddingResult | None = None
    """The vector of the text, if it is new or newly searchable."""


class TrackedFact(models.Model):
    """A fact that records its changes until `FactQuerySet.write` writes them."""

    id: uuid.UUID
    user_id: uuid.UUID
    category: str
    status: str
    held_for: str
    said_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    created_at: datetime
    updated_at: datetime
    unsaved: UnsavedChanges | None = None

    class Meta:
        abstract = True

    @property
    def is_rule(self) -> bool:
        return self.category == FactCategory.RULE

    @property
    def is_searchable(self) -> bool:
        """Whether it has a passage; prompts contain all rules."""
        return self.status == FactStatus.ACTIVE and not self.is_rule

    def change(
        self,
        values: Mapping[str, Any],
        action: str,
        *,
        by: str,
        at: datetime,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> bool:
        """Set fields and record the differences; return whether any differ.

        A fact that leaves or enters review has no other reason than a person's.
        """
        if (status := values.get("status", self.status)) != self.status:
            is_pending = status == FactStatus.PENDING_REVIEW
            values = {"held_for": HeldFor.PERSON.value if is_pending else "", **values}
        changed = [name for name, new in values.items() if getattr(self, name) != new]
        if not changed:
            return False
        before = field_values(self, changed)
        unsaved = self._begin_change(at)
        was_searchable = self.is_searchable
        for name in changed:
            setattr(self, name, values[name])
        if "content" in changed or (self.is_searchable and not was_searchable):
            unsaved.text = text
        after = field_values(self, changed)
        unsaved.steps.append(self._step(action, by, at, reason, before, after))
        return True

    def record_creation(
        self,
        action: str,
        *,
        by: str,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> None:
        after = field_values(self, TRACKED_FIELDS)
        step = self._step(action, by, self.created_at, reason, None, after)
        self.unsaved = UnsavedChanges(was_searchable=False, steps=[step], text=text)

    def record_acceptance(
        self,
        before: Mapping[str, Any],
        action: str,
        *,
        by: str,
        at: datetime,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> None:
        """Record what became of a held fact; `before` has its tracked fields."""
        now = field_values(self, TRACKED_FIELDS)
        after = {name: new for name, new in now.items() if new != before[name]}
        old = {name: before[name] for name in after}
        step = self._step(action, by, at, reason, old, after)
        self.updated_at = at
        self.unsaved = UnsavedChanges(was_searchable=False, steps=[step], text=text)

    def repeat(self, said_at: datetime, *, at: datetime) -> None:
        """Record a repetition, which adds no step to its history."""
        self._begin_change(at)
        self.said_at = max(self.said_at, said_at)

    def supersede(
        self,
        new_id: uuid.UUID,
        since: datetime,
        *,
        by: str,
        at: datetime,
        new_content: str,
    ) -> None:
        """Record, in memory, that a fact supersedes it, now or from a later time on."""
        values: dict[str, Any] = {"superseded_by_id": new_id}
        if since <= at:
            values["status"] = "superseded"
        if self._is_within(since):
            values["valid_to"] = since
        reason = f"superseded by: {new_content}"
        self.change(values, "superseded", by=by, at=at, reason=reason)

    def end(self, at: datetime) -> None:
        """Set, in memory, the end of its validity to a time inside it."""
        if self._is_within(at):
            self.valid_to = at

    def _is_within(self, at: datetime) -> bool:
        """Return whether a time is inside the interval of validity."""
        is_after = self.valid_from is None or self.valid_from < at
        return is_after and (self.valid_to is None or at < self.valid_to)

    def _begin_change(self, at: datetime) -> UnsavedChanges:
        self.updated_at = at
        if self.unsaved is None:
            self.unsaved = UnsavedChanges(self.is_searchable)
        return self.unsaved

    def _step(
        self,
        action: str,
        by: str,
        at: datetime,
        reason: str,
        before: dict[str, Any] | None,
        after: dict[str, Any],
    ) -> FactChange:
        return FactChange(
            fact_id=self.id,
            user_id=self.user_id,
            at=at,
            action=action,
            by=fact_validation.clean_text(by)[:300],
            reason=fact_validation.clean_text(reason)[:500],
            before=before,
            after=after,
        )
