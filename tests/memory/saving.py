"""Saving facts, as most tests of them do."""

from typing import Any

from core.ids import UserId
from memory.facts import fact_store
from memory.types import Draft, Saved


def save(user: UserId, content: str, *, by: str = "extraction", **draft: Any) -> Saved:
    """Save one fact without a vector."""
    [saved] = fact_store.save(user, [Draft(content, **draft)], [None], by=by)
    return saved
