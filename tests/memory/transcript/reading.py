"""A helper that reads a thread at once."""

from typing import Any

from core.ids import UserId
from memory.transcript import message_store
from memory.transcript.message_store import DEFAULT_CACHED_MESSAGES, RecentMessages


def recent(
    user: UserId,
    thread: str = "",
    *,
    cap: int = DEFAULT_CACHED_MESSAGES,
    **options: Any,
) -> RecentMessages:
    """Return the newest messages of a thread within the budget; may be empty."""
    conversation = message_store.read_thread(user, thread, cap=cap)
    return (
        RecentMessages([]) if conversation is None else conversation.recent(**options)
    )
