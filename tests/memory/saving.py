"""Saving facts, as most tests of them do."""

from typing import Any

from core.ids import UserId
from memory import facts
from memory.known import Draft, Saved


def save(user: UserId, content: str, *, by: str = "extraction", **draft: Any) -> Saved:
    """Save one fact without a vector."""
    [saved] = facts.save(user, [Draft(content, **draft)], [None], by=by)
    return saved
