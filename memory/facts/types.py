"""Value types of facts."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Category = Literal[
    "preference", "fact", "event", "relationship", "decision", "general", "rule"
]
"""What users, operators and models write. Rules say how the user wants to be answered.
Prompts contain all of them, so they are not searched."""
SearchedCategory = Literal[
    "preference", "fact", "event", "relationship", "decision", "general", "episode"
]
AnyCategory = Literal[Category, "episode"]
"""The categories of stored facts: only the server writes episodes."""
Status = Literal["active", "pending_review", "superseded", "expired", "deleted"]
Source = Literal["extraction", "agent", "user", "operator"]
HeldFor = Literal["injection", "conflict", "limit", "session", "consent", "person"]
"""Why a fact is pending review; `memory.models.fact_choices` explains them."""
Outcome = Literal[
    "created", "updated", "unchanged", "superseded", "outdated", "pending_review"
]
"""The outcome of a draft: `superseded` ended another fact, `outdated` is older than a
stored fact and is stored as its past."""

MAX_CONTENT_LENGTH = 2000
"""Maximum characters of a fact."""
MAX_RULE_LENGTH = 400
"""Maximum characters of a rule: prompts contain it."""
MAX_RULE_KEY_LENGTH = 40


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
    scope: str = ""
    """Where it is recalled; all drafts of a save have the same."""
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
    held_for: Literal[HeldFor, ""] = ""
    """Why it is held; "" means it is used at once."""
    is_accepted: bool = False
    """Whether a person has accepted it, also against what a person has set."""

    @property
    def is_rule(self) -> bool:
        return self.category == "rule"

    @property
    def stated_at(self) -> datetime:
        """`said_at`, once it is set."""
        assert self.said_at is not None  # noqa: S101  `save_drafts` sets it
        return self.said_at

    @property
    def was_past(self) -> bool:
        """Whether its validity had ended before the user stated it."""
        return self.valid_to is not None and self.valid_to <= self.stated_at

    @property
    def source_values(self) -> dict[str, Any]:
        """Fields of the fact that say where it is from."""
        return {
            "content": self.content,
            "source": self.source,
            "agent": self.agent,
            "scope": self.scope,
            "quote": self.quote,
            "message_id": self.message_id,
            "said_at": self.stated_at,
        }

    @property
    def date_values(self) -> dict[str, datetime | None]:
        """Fields of the fact that say when it is true."""
        return {
            "valid_from": self.valid_from,
            "valid_to": self.valid_to,
            "expires_at": self.expires_at,
        }


@dataclass(frozen=True, slots=True)
class SaveResult:
    fact_id: uuid.UUID
    """The fact that now holds the content."""
    outcome: Outcome
    superseded: uuid.UUID | None = None
