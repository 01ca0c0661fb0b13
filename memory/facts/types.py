"""Value types of facts."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Category = Literal["preference", "fact", "event", "relationship", "decision", "general"]
Status = Literal["active", "pending_review", "superseded", "expired", "deleted"]
Source = Literal["extraction", "agent", "user", "operator"]
Outcome = Literal[
    "created", "updated", "unchanged", "superseded", "outdated", "pending_review"
]
"""The outcome of a draft: `superseded` ended another fact, `outdated` is older than a
stored fact and is stored as its past."""

MAX_CONTENT_LENGTH = 2000
"""Maximum characters of a fact."""


@dataclass(frozen=True, slots=True)
class FactDraft:
    """A fact to save."""

    content: str
    category: Category = "general"
    importance: int = 5
    """From 1, trivial, to 10, critical."""
    key: str | None = None
    """Unique key within the category: saving it again replaces the fact."""
    is_pinned: bool = False
    source: Source = "extraction"
    agent: str = ""
    quote: str = ""
    message_id: int | None = None
    said_at: datetime | None = None
    """When the user said it; None means now."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    supersedes: uuid.UUID | None = None
    """The id of a fact that this one ends."""
    review_reason: str = ""
    """Why a person must review it before use; "" means no review."""


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The outcome of saving a draft."""

    fact_id: uuid.UUID
    """The fact that now holds the content."""
    outcome: Outcome
    superseded: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact in its current state."""

    id: uuid.UUID
    content: str
    category: Category
    key: str | None
    importance: int
    status: Status
    is_pinned: bool
    source: Source
    agent: str
    quote: str
    said_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    superseded_by: uuid.UUID | None
    created_at: datetime
    updated_at: datetime

    def is_valid_at(self, now: datetime) -> bool:
        """Return whether it is valid at a time; pinned facts do not expire."""
        return (
            (self.is_pinned or self.expires_at is None or self.expires_at > now)
            and (self.valid_from is None or self.valid_from <= now)
            and (self.valid_to is None or self.valid_to > now)
        )


@dataclass(frozen=True, slots=True)
class FactHistoryStep:
    """One step of a fact's history."""

    at: datetime
    action: str
    by: str
    reason: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
