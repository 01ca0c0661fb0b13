"""What agents keep of threads: read and changed by the names of threads."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from core.ids import UserId
from memory.errors import ThreadUnknown
from memory.models import AgentState, Thread

Reduce = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Returns new values for stored ones."""
IsMentioned = Callable[[str], bool]
"""Returns whether a text mentions what is forgotten."""


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


def remove_mentions(user_id: UserId, is_mentioned: IsMentioned) -> None:
    """Remove what is forgotten from the states of a user's threads.

    A field, an item of a list or a value of an object goes if its text mentions it.
    Call it under the locks of `withholding.lock_user`, in a transaction.
    """
    of_user = AgentState.objects.filter(thread__user_id=user_id)
    mentioning = {
        row.pk: row.thread_id
        for row in of_user.iterator()
        if is_mentioned(_text(row.values))
    }
    # Turns change states under these locks.
    threads = Thread.objects.filter(pk__in=mentioning.values()).order_by("pk")
    list(threads.select_for_update(no_key=True).values_list("pk"))
    for row in of_user.filter(pk__in=mentioning):
        row.replace(_without(row.values, is_mentioned), datetime.now(UTC))


def _text(value: Any) -> str:
    return " ".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)


def _without(values: Mapping[str, Any], is_mentioned: IsMentioned) -> dict[str, Any]:
    """Return fields without what mentions it; their names are the operator's."""
    pruned = ((name, _prune(each, is_mentioned)) for name, each in values.items())
    return {name: each for name, each in pruned if not is_mentioned(_own_text(each))}


def _prune(value: Any, is_mentioned: IsMentioned) -> Any:
    if isinstance(value, list):
        pruned = (_prune(each, is_mentioned) for each in value)
        return [each for each in pruned if not is_mentioned(_own_text(each))]
    if isinstance(value, dict):
        items = ((key, _prune(each, is_mentioned)) for key, each in value.items())
        return {
            key: each
            for key, each in items
            if not is_mentioned(f"{key} {_own_text(each)}")
        }
    return value


def _own_text(value: Any) -> str:
    """Return a text as one statement: the items of a list are several."""
    return "" if isinstance(value, list) else _text(value)
