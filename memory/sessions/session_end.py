"""The end of sessions: at a request, after some idle time, or at a shutdown.

Every end takes the same path: the session's row and a task are written in one
transaction; the task writes the episode and closes the session (`session_worker`).
"""

import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from config import live
from config.sections import Config
from core.ids import UserId
from core.runtime import shared_clock
from database import keyset
from memory import memory_settings
from memory.config import SessionConfig
from memory.errors import SessionUnknown, ThreadUnknown
from memory.models import Session, StoredMessage, Thread
from memory.models.sessions import EndReason, SessionQuerySet
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec

KIND = "session"
MAX_FAILURES = 5
"""Attempts to write an episode."""
SHUTDOWN_SECONDS = 3.0
"""The time to end sessions at a shutdown."""
MAX_ENDED = 500
"""Idle sessions that one sweep ends; the next continues."""


def end(
    thread_id: int, reason: EndReason, *, idle_since: datetime | None = None
) -> Session | None:
    """End the open session of a thread.

    Returns None if none is open, or if it has had a turn since `idle_since`: of
    concurrent callers one ends it.
    """
    now = shared_clock.now()
    with transaction.atomic():
        open_ones = Thread.objects.in_session(idle_since).filter(pk=thread_id)
        thread = open_ones.select_for_update(no_key=True).first()
        if thread is None or thread.session_start is None:
            return None
        Thread.objects.filter(pk=thread_id).update(session_start=None)
        messages = StoredMessage.objects.of_thread(thread_id)
        first = messages.since(thread.session_start).first()
        if first is None:  # Its messages were deleted or moved.
            return None
        session = Session.objects.create(
            user_id=thread.user_id,
            thread=thread,
            first_position=thread.session_start,
            end_position=thread.length,
            started_at=first.created_at,
            ended_at=min(now, thread.updated_at) if idle_since else now,
            reason=reason,
        )
        enqueue_closing([session])
    return session


def end_of_user(user_id: UserId, thread: str, reason: EndReason) -> Session | None:
    """End the open session of a user's thread, by its name; None if none is open."""
    rows = Thread.objects.in_session().filter(user_id=user_id, name=thread)
    thread_id = rows.values_list("pk", flat=True).first()
    return None if thread_id is None else end(thread_id, reason)


def end_with_feedback(
    user_id: UserId, thread: str, *, score: int | None = None, comment: str = ""
) -> Session:
    """End the open session of a user's thread, and return the one that ended last.

    So a repeated request changes nothing. With a score or a comment, it is rated.
    Raises `ThreadUnknown` and `SessionUnknown`.
    """
    end_of_user(user_id, thread, EndReason.REQUEST)
    session = last_of_thread(user_id, thread)
    if session is None:
        if not Thread.objects.filter(user_id=user_id, name=thread).exists():
            raise ThreadUnknown
        raise SessionUnknown
    is_rated = score is not None or bool(comment)
    if is_rated and not session.rate(score=score, comment=comment):
        raise SessionUnknown
    return session


def end_idle(now: datetime) -> int:
    """End the sessions without a turn for as long as configured; return how many."""
    settings = current_settings(live.current())
    if settings is None:
        return 0
    idle_since = now - timedelta(minutes=settings.idle_minutes)
    rows = Thread.objects.in_session(idle_since).order_by("updated_at")
    found = list(rows.values_list("pk", flat=True)[:MAX_ENDED])
    ended = (end(pk, EndReason.IDLE, idle_since=idle_since) for pk in found)
    return sum(session is not None for session in ended)


def end_at_shutdown(config: Config) -> int:
    """End all open sessions, if so configured; return how many.

    Their episodes are written when workers run again. Those that there is no time for
    end when they have been idle.
    """
    settings = current_settings(config)
    if settings is None or not settings.end_on_shutdown:
        return 0
    until = time.monotonic() + SHUTDOWN_SECONDS
    ended = 0
    for pk in list(Thread.objects.in_session().values_list("pk", flat=True)):
        if time.monotonic() >= until:
            break
        ended += end(pk, EndReason.SHUTDOWN) is not None
    return ended


def current_settings(config: Config) -> SessionConfig | None:
    """Return the settings of sessions; None without memory or sessions."""
    users = memory_settings.resolve_for_users(config)
    return None if users is None else users.memory.sessions


def enqueue_closing(sessions: Iterable[Session]) -> None:
    """Add the tasks that write the episodes of ended sessions and close them."""
    Task.objects.enqueue(
        [
            TaskSpec(
                KIND,
                UserId(session.user_id),
                agent="",
                payload={"session": session.pk.hex},
                max_failures=MAX_FAILURES,
            )
            for session in sessions
        ]
    )


def rewrite_episodes(sessions: SessionQuerySet) -> None:
    """Delete what the episodes of sessions say, and let new ones be written.

    Call it under the lock of the user's facts, when what they are about has changed.
    """
    found = sessions.delete_episodes()
    Session.objects.filter(pk__in=[each.pk for each in found]).update(closed_at=None)
    enqueue_closing(found)


def last_of_thread(user_id: UserId, thread: str) -> Session | None:
    """Return the session of a thread that ended last."""
    rows = Session.objects.filter(user_id=user_id, thread__name=thread)
    return rows.select_related("thread", "episode").newest_first().first()


def list_page(
    user_id: UserId, thread: str, *, after: UUID | None, limit: int
) -> list[Session] | None:
    """Return the ended sessions of a thread, the last first, after one of them.

    None if `after` is none of them. Raises `ThreadUnknown`.
    """
    if not Thread.objects.filter(user_id=user_id, name=thread).exists():
        raise ThreadUnknown
    rows = Session.objects.filter(user_id=user_id, thread__name=thread)
    last = None if after is None else rows.filter(pk=after).first()
    if after is not None and last is None:
        return None
    cursor = None if last is None else (last.ended_at, last.pk)
    later = keyset.later_rows("ended_at", cursor)
    found = rows.filter(later).select_related("thread", "episode").newest_first()
    return list(found[:limit])


def get(session_id: UUID) -> Session | None:
    """Return a session with its thread and episode; None if its thread was deleted."""
    rows = Session.objects.select_related("thread", "episode")
    return rows.filter(pk=session_id).first()
