"""The move of a conversation's first turn to a thread of its own.

A client that sends whole conversations begins each with a single message, which is
stored in the user's default thread. Its second request shows that it is a conversation.
"""

from datetime import UTC, datetime
from uuid import UUID

from django.db.models import F

from core.ids import UserId
from core.runtime import shared_clock
from memory.config import scope_key
from memory.extraction import extraction_tasks
from memory.models import Fact, Owner, Passage, Session, StoredMessage, Thread
from memory.sessions import session_end
from telemetry.models import Turn

MAX_TURN_ROWS = 500


def move_out(
    user_id: UserId, thread_id: int, turn_id: UUID, at: int, root: bytes, to: str
) -> int | None:
    """Move a turn with the position `at` from the default thread to the thread `to`.

    Returns the new position. Does nothing and returns None if the turn does not begin
    the conversation, whose first message has the digest `root`, if it is the thread's
    first conversation, or if a summary covers it.
    """
    nearby = (at - MAX_TURN_ROWS, at + MAX_TURN_ROWS)
    of_thread = StoredMessage.objects.of_thread(thread_id)
    messages = of_thread.filter(turn_id=turn_id, position__range=nearby)
    Owner.objects.lock(user_id, datetime.now(UTC))
    # Extraction holds this lock while it makes passages and facts of the messages.
    Owner.objects.select_for_update().filter(user_id=user_id).first()
    thread = Thread.objects.select_for_update(no_key=True).filter(pk=thread_id).first()
    rows = list(messages.values_list("id", "position", "digest"))
    if thread is None or not rows:  # erased in the meantime
        return None
    ids = [row[0] for row in rows]
    first, last = rows[0][1], rows[-1][1]
    begins = rows[0][2] is not None and bytes(rows[0][2]) == root
    is_first = not of_thread.filter(position__lt=first).exists()
    if not begins or is_first or first < thread.summarized_until:
        return None
    now = shared_clock.now()
    is_in_session = thread.session_start is not None and thread.session_start <= first
    new, _ = Thread.objects.reserve_positions(
        user_id, to, last - first + 1, now, opens_session=is_in_session
    )
    place = {"thread_id": new, "position": F("position") - first}
    StoredMessage.objects.filter(pk__in=ids).update(**place)
    if Passage.objects.filter(message_id__in=ids).update(**place):
        Owner.objects.ensure_bumped(user_id)
    _move_scope(user_id, ids, scope_key("thread", "", thread.name), to)
    Thread.objects.filter(pk=thread_id).update(revision=F("revision") + 1)
    sessions = Session.objects.covering(thread_id, first, last)
    session_end.rewrite_episodes(sessions.replaceable())
    extraction_tasks.move(user_id, turn_id, new, first)
    Turn.objects.filter(pk=turn_id).update(thread=to)
    return at - first


def _move_scope(user_id: UserId, messages: list[int], scope: str, to: str) -> None:
    """Let what was learned in a thread alone be recalled in the other alone."""
    new = scope_key("thread", "", to)
    Passage.objects.filter(message__in=messages, scope=scope).update(scope=new)
    facts = Fact.objects.filter(user_id=user_id, message__in=messages, scope=scope)
    facts.update(scope=new)
