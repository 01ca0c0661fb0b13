"""Withholding of messages that mention a forgotten fact.

No prompt, search, summary or extraction contains them any more, whole exchanges at a
time, so that what remains of the conversation is well formed. Their user still sees
them, unless they are purged.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, product
from operator import itemgetter
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Least

from core import token_estimates
from core.ids import TurnId, UserId
from memory.models import (
    Fact,
    FactMessage,
    FactStatus,
    Owner,
    Passage,
    Session,
    StoredMessage,
    Summary,
    Thread,
)
from memory.models.messages import HIGH_IMPORTANCE
from memory.models.sessions import SessionQuerySet
from memory.models.threads import SummaryQuerySet
from memory.sessions import session_end

MAX_EXCHANGE_ROWS = 500
"""Messages of one exchange before and after the one that mentions the fact."""

MessagePlace = tuple[int, int, str]
"""The id, position and role of a message."""
PURGED = {
    "text": "",
    "extra": "",
    "agent": "",
    "tokens": token_estimates.MESSAGE_OVERHEAD,
}


def withhold(
    user_id: UserId, message_ids: Collection[int], *, purge: bool = False
) -> set[int]:
    """Withhold messages of a user, each with its exchange; `purge` empties them.

    Returns the ids of all these messages. Purged ones keep their places and digests: a
    client that sends the conversation again is recognised, and they are not stored
    again.
    """
    withheld: set[int] = set()
    with transaction.atomic():
        lock_user(user_id)
        found = StoredMessage.objects.filter(
            pk__in=message_ids, thread__user_id=user_id
        )
        rows = found.order_by("thread_id", "position")
        by_thread = {
            thread_id: [position for _, position in places]
            for thread_id, places in groupby(
                rows.values_list("thread_id", "position"), itemgetter(0)
            )
        }
        threads = Thread.objects.filter(pk__in=by_thread).order_by("pk")
        list(threads.select_for_update(no_key=True).values_list("pk"))
        for thread_id, positions in by_thread.items():
            messages = _find_exchanges(thread_id, positions)
            _withhold_rows(user_id, thread_id, messages, purge=purge)
            withheld |= messages.keys()
    return withheld


def lock_user(user_id: UserId) -> None:
    """Lock a user's messages and facts, in the order of all that deletes messages."""
    Thread.objects.lock_of_user(user_id)
    Owner.objects.lock(user_id, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class TouchedFacts:
    """The facts that an agent saved and forgot in a turn."""

    saved: Collection[UUID] = ()
    forgotten: Collection[UUID] = ()
    is_refused: bool = False
    """Whether the turn is withheld, whatever it mentions: its question was refused."""

    def apply(self, user_id: UserId, thread_id: int, first: int, end: int) -> bool:
        """Link them with the turn's messages, at `first <= position < end`.

        Returns whether the turn is withheld: it was refused, or mentions a fact that
        was forgotten in it, or meanwhile. The thread is locked.
        """
        rows = StoredMessage.objects.of_thread(thread_id).since(first).before(end)
        saved = Fact.objects.filter(user_id=user_id, pk__in=self.saved)
        known = dict(saved.values_list("pk", "status"))
        questions = rows.filter(role="user").values_list("pk", flat=True)
        FactMessage.objects.link(product(known, list(questions)))
        is_withheld = (
            self.is_refused
            or bool(self.forgotten)
            or FactStatus.DELETED in known.values()
        )
        if is_withheld:
            messages = dict(rows.values_list("id", "position"))
            _withhold_rows(user_id, thread_id, messages)
        return is_withheld


NO_FACTS = TouchedFacts()


def release_turn(user_id: UserId, thread: str, turn_id: TurnId) -> None:
    """Let models read a turn's messages again: it was withheld for a while."""
    with transaction.atomic():
        Thread.objects.lock_of_user(user_id)
        found = Thread.objects.filter(user_id=user_id, name=thread)
        for thread_id, length in found.values_list("pk", "length"):
            rows = StoredMessage.objects.of_thread(thread_id)
            rows = rows.since(length - MAX_EXCHANGE_ROWS).filter(turn_id=turn_id)
            if rows.update(is_withheld=False):
                found.update(revision=F("revision") + 1)


def _withhold_rows(
    user_id: UserId, thread_id: int, messages: dict[int, int], *, purge: bool = False
) -> None:
    """Withhold messages of a locked thread, by id with their positions."""
    rows = StoredMessage.objects.filter(pk__in=messages)
    rows.update(
        is_withheld=True,
        importance=Least(F("importance"), HIGH_IMPORTANCE),
        **(PURGED if purge else {}),
    )
    Passage.objects.unindex_messages(user_id, thread_id, messages)
    covering = _covering_summaries(thread_id, messages.values())
    covering.make_empty(datetime.now(UTC))
    session_end.rewrite_episodes(_covering_sessions(thread_id, messages.values()))
    # Processes that cached the thread read it again.
    Thread.objects.filter(pk=thread_id).update(revision=F("revision") + 1)


def _covering_summaries(thread_id: int, positions: Collection[int]) -> SummaryQuerySet:
    rows = Summary.objects.filter(
        thread_id=thread_id,
        first_position__lte=max(positions),
        end_position__gt=min(positions),
    )
    covering = [
        number
        for number, first, end in rows.values_list(
            "pk", "first_position", "end_position"
        )
        if any(first <= position < end for position in positions)
    ]
    return rows.filter(pk__in=covering)


def _covering_sessions(thread_id: int, positions: Collection[int]) -> SessionQuerySet:
    """Return sessions with these messages, if the server may write their episodes."""
    rows = Session.objects.covering(thread_id, min(positions), max(positions))
    places = rows.replaceable().values_list("pk", "first_position", "end_position")
    covering = [
        number
        for number, first, end in places
        if any(first <= position < end for position in positions)
    ]
    return rows.filter(pk__in=covering)


def _find_exchanges(thread_id: int, positions: Iterable[int]) -> dict[int, int]:
    """Return the messages of the exchanges at these positions: ids and positions."""
    found: dict[int, int] = {}
    for position in positions:
        if position in found.values():
            continue
        near = (position - MAX_EXCHANGE_ROWS, position + MAX_EXCHANGE_ROWS)
        rows = StoredMessage.objects.of_thread(thread_id).filter(position__range=near)
        for exchange in _split(rows.values_list("id", "position", "role")):
            if exchange[0][1] <= position <= exchange[-1][1]:
                found |= {number: place for number, place, _ in exchange}
    return found


def _split(rows: Iterable[MessagePlace]) -> Iterator[list[MessagePlace]]:
    """Yield exchanges: messages of the user, and all that answers them."""
    exchange: list[MessagePlace] = []
    for row in rows:
        if row[2] == "user" and exchange and exchange[-1][2] != "user":
            yield exchange
            exchange = []
        exchange.append(row)
    if exchange:
        yield exchange
