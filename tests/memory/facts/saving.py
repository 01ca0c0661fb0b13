"""A helper that saves facts."""

from typing import Any

from core.ids import UserId
from memory.facts import fact_store
from memory.facts.types import FactDraft, SaveResult


def save(
    user: UserId, content: str, *, by: str = "extraction", **draft: Any
) -> SaveResult:
    """Save one fact without a vector."""
    [saved] = fact_store.save_drafts(user, [FactDraft(content, **draft)], [None], by=by)
    return saved
