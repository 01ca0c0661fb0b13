"""Reads the stored messages of replies that a request refers to."""

from collections.abc import Mapping, Sequence
from typing import cast

from core.ids import TurnId, UserId
from core.messages import Message, Role
from memory.errors import ReplyUnknown
from memory.models import StoredMessage
from memory.transcript import branches, message_store
from memory.transcript.message_cache import CachedThread
from memory.transcript.message_store import ThreadHistory

MAX_REPLY_ROWS = 50
MAX_BRANCH_ROWS = 400
"""Messages of another branch that are read; older ones are left out of the prompt."""


def read_replies(
    user_id: UserId, thread: str, wanted: Sequence[bytes]
) -> Mapping[bytes, Sequence[Message]]:
    """Return what is stored of replies, by digest: calls, results and reasoning."""
    places: dict[bytes, tuple[int, int]] = {}
    for digest, thread_id, _, position, *_ in StoredMessage.objects.find(
        user_id, thread, "digest", wanted
    ):
        places.setdefault(digest, (thread_id, position))
    replies = {digest: _reply_rows(*place) for digest, place in places.items()}
    return {digest: rows for digest, rows in replies.items() if rows}


def _reply_rows(thread_id: int, position: int) -> list[Message]:
    """Return the messages of the reply that ends at a position; none if withheld.

    Only the last one has a digest: the client sees them as one.
    """
    rows = StoredMessage.objects.of_thread(thread_id).filter(
        position__range=(position - MAX_REPLY_ROWS, position), is_withheld=False
    )
    messages: list[Message] = []
    for row in rows.order_by("-position").only("role", "text", "extra", "digest"):
        if messages and row.digest is not None:
            break
        messages.insert(0, row.to_message())
    return messages


def read_until(user_id: UserId, turn_id: TurnId) -> ThreadHistory:
    """Return a conversation up to a turn's reply, whichever branch it is on.

    Raises `ReplyUnknown`.
    """
    reply = StoredMessage.objects.find_reply(user_id, turn_id)
    if reply is None:
        raise ReplyUnknown
    thread = reply.thread
    end = branches.reply_end(reply)
    if end == thread.length - 1:
        history = message_store.read_thread(user_id, thread.name)
        if history is not None:
            return history
    fork, inactive = branches.find_fork(thread.pk, end)
    messages = StoredMessage.objects.of_thread(thread.pk)
    rows = [
        message_store.cached_message(
            row.position, row.tokens, cast(Role, row.role), row.text, row.extra
        )
        for first, last in reversed(inactive)
        for row in messages.filter(position__range=(first, last), is_withheld=False)
    ]
    cached = CachedThread(
        thread.pk, thread.revision, end + 1, tuple(rows[-MAX_BRANCH_ROWS:])
    )
    return ThreadHistory(
        cached, 0, thread.session_start is not None, resumes_at=fork + 1
    )
