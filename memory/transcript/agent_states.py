"""What agents keep of threads: read and changed by the names of threads."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from core.ids import UserId
from memory.errors import ThreadUnknown
from memory.models import AgentState, Thread

Reduce = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Returns new values for stored ones."""


def read(user_id: UserId, thread: str, agent: str) -> AgentState:
    """Return the state, empty if nothing was stored; raises `ThreadUnknown`."""
    row = AgentState.objects.of_thread(user_id, thread, agent)
    if row is not None:
        return row
    if not Thread.objects.filter(user_id=user_id, name=thread).exists():
        raise ThreadUnknown
    return AgentState(agent=agent)


def change(user_id: UserId, thread: str, agent: str, reduce: Reduce) -> AgentState:
    """Change the state; raises `ThreadUnknown`, and what `reduce` raises."""
    threads = Thread.objects.select_for_update(no_key=True)
    with transaction.atomic():
        found = threads.filter(user_id=user_id, name=thread).first()
        if found is None:
            raise ThreadUnknown
        return AgentState.objects.change(found.pk, agent, reduce, datetime.now(UTC))


def change_in_turn(user_id: UserId, thread: str, agent: str, reduce: Reduce) -> None:
    """Change the state in the caller's transaction; create the thread if needed."""
    now = datetime.now(UTC)
    # Locks the thread, which the turn may have done before.
    thread_id, _ = Thread.objects.reserve_positions(user_id, thread, 0, now)
    AgentState.objects.change(thread_id, agent, reduce, now)
