"""Reading a thread in one go, as most tests want it."""

from typing import Any

from core.ids import UserId
from memory.transcript import message_store
from memory.transcript.message_store import CAP, Recent


def recent(user: UserId, thread: str = "", *, cap: int = CAP, **options: Any) -> Recent:
    """Return the newest messages of a thread that fit; none where there is none."""
    conversation = message_store.read(user, thread, cap=cap)
    return Recent([]) if conversation is None else conversation.recent(**options)
