"""Where a turn belongs among a user's stored conversations.

A client that sends its whole conversation is recognised by what it sent: the stored
thread is continued after the last message that both have in common. If other messages
follow there, because the client edited one or asked for another reply, the new ones
begin a branch, which becomes the current one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Max, Q

from core.ids import TurnId, UserId
from core.messages import Message
from memory.errors import ReplyUnknown
from memory.models import StoredMessage, Thread, plain_sql
from memory.transcript import digests, moved_turns
from memory.transcript.message_rows import NewMessage

NO_PARENT = -1
"""The parent of a thread's first message."""
LAST_FEW = 4
"""Messages looked up first: nearly always one of them is stored."""
BATCH_SIZE = 200
MAX_EXCHANGES = 16


@dataclass(frozen=True, slots=True)
class SentConversation:
    """The conversation in a request, and the reply that its client received."""

    messages: Sequence[Message]
    """Without system messages."""
    is_whole: bool
    """Whether it is the whole conversation, and not only its new messages."""
    new_count: int
    """How many messages at its end were new, from which facts may be extracted."""
    follows: TurnId | None = None
    """The turn whose reply it continues; None: the newest of its thread."""
    reply: Message | None = None
    reply_rows: int = 0
    """How many of the turn's messages store the reply."""
    to_entry: Callable[[Message], NewMessage] = NewMessage
    """Makes an entry of an earlier message, if it is not stored yet."""

    @property
    def new_rows(self) -> int:
        """How many of the turn's messages facts may be extracted from."""
        return self.new_count + self.reply_rows


class Match(NamedTuple):
    """A stored message that is also in the client's conversation."""

    digest: bytes
    thread_id: int
    thread: str
    position: int
    is_active: bool
    stored_turn_id: Any
    length: int

    @property
    def turn_id(self) -> UUID:
        return plain_sql.read_id(self.stored_turn_id)

    @property
    def is_of_newest_turn(self) -> bool:
        """Whether only its reply follows, if anything."""
        return self.position >= self.length - 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where the messages of a turn are stored."""

    thread: str
    known: int = 0
    """How many messages of the sent conversation are stored already."""
    digest: bytes | None = None
    """Of the message before the new ones; None if they are the client's first."""
    parent: int | None = None
    """The position of the message that they follow; None: the newest one."""
    shares_thread: bool = False
    """Whether other conversations may be in the thread: the client named none."""
    line: Sequence[bytes] = ()
    """The digests of the conversation up to the new messages, in a shared thread."""


def find_place(
    user_id: UserId, thread: str, turn_id: TurnId, sent: SentConversation
) -> Place:
    """Return where to store a turn, in the transaction that stores it.

    `thread` is the one that the client named, or "". Without a name a conversation is
    recognised if one of its replies is stored; else it gets a thread of its own, unless
    the user has none yet: the default thread contains the messages of clients that send
    only new ones.
    """
    chain = list(digests.iterate_digests(user_id, sent.messages))
    found = _find_last_common(user_id, thread, sent.messages, chain)
    if found is None:
        is_first = not thread and Thread.objects.state(user_id, "") is None
        name = thread if thread or is_first else own_thread(turn_id)
        # In a named thread the client has edited the first message.
        return Place(name, parent=NO_PARENT if thread else None)
    match, known = found
    if match.thread or thread:
        return Place(match.thread, known, match.digest, match.position)
    own = own_thread(turn_id)
    position = None
    if len([1 for each in sent.messages[:known] if each.role == "assistant"]) <= 1:
        position = moved_turns.move_out(
            user_id, match.thread_id, match.turn_id, match.position, chain[0], own
        )
    if position is not None:
        return Place(own, known, match.digest, position)
    return Place(
        "",
        known,
        match.digest,
        match.position,
        shares_thread=True,
        line=chain[:known],
    )


def place_after(user_id: UserId, turn_id: TurnId) -> Place:
    """Return the place after a turn's reply; raises `ReplyUnknown`."""
    reply = StoredMessage.objects.find_reply(user_id, turn_id)
    if reply is None:
        raise ReplyUnknown
    end = reply_end(reply)
    row = reply.thread.messages.only("digest").get(position=end)
    digest = None if row.digest is None else bytes(row.digest)
    name = reply.thread.name
    return Place(name, digest=digest, parent=end, shares_thread=not name)


def reply_end(reply: StoredMessage) -> int:
    """Return the position of the last message of a reply.

    Results of the agent's own tools may follow what the client received.
    """
    later = reply.thread.messages.filter(
        position__gte=reply.position, turn_id=reply.turn_id
    )
    last = later.aggregate(last=Max("position"))["last"]
    return reply.position if last is None else int(last)


def with_digests(
    user_id: UserId, entries: Sequence[NewMessage], sent: SentConversation, place: Place
) -> list[NewMessage]:
    """Return the messages to store, and set their digests.

    `entries` are messages from the end of the conversation, then those of the reply.
    """
    count = len(entries) - sent.reply_rows
    messages = sent.messages
    digest = user_id.bytes if place.digest is None else place.digest
    digested: list[NewMessage] = []
    earlier = len(messages) - count
    for number, message in enumerate(messages[place.known :], start=place.known):
        digest = digests.extend_digest(digest, message)
        if number < earlier and not sent.is_whole:
            continue
        is_new = number >= earlier
        entry = entries[number - earlier] if is_new else sent.to_entry(message)
        entry.digest = digest
        digested.append(entry)
    # The client sees one message, however many tools were called for it. The digest is
    # that of the last one, so that what follows is stored after all of them.
    reply = entries[count:]
    if reply and sent.reply is not None:
        question = digests.find_last_question(messages)
        digested += reply
        last = digested[-1]
        last.digest, last.exchange_digest = digests.digest_reply(
            user_id, question, digest, sent.reply
        )
    return digested


def own_thread(turn_id: TurnId) -> str:
    """Return the name of the thread of a conversation that its client did not name."""
    return f"conversation-{turn_id}"


def _find_last_common(
    user_id: UserId, thread: str, messages: Sequence[Message], chain: Sequence[bytes]
) -> tuple[Match, int] | None:
    """Return the last stored message of a conversation, and its number in it from 1.

    `chain` has the digests of the messages.
    """
    if not messages:
        return None
    numbers = {digest: number for number, digest in enumerate(chain, start=1)}
    replies = [
        n for n, each in enumerate(messages, start=1) if each.role == "assistant"
    ]
    if not thread and not replies:
        return None
    for batch in _newest_first(chain):
        matches = _find(user_id, thread, "digest", batch)
        if matches:
            # Of conversations with the same replies, the newest.
            best = max(
                matches, key=lambda match: bisect_right(replies, numbers[match.digest])
            )
            known = numbers[best.digest]
            # Many conversations begin with the same words; a reply tells them apart.
            has_reply = bool(replies) and replies[0] <= known
            if thread or has_reply or best.is_of_newest_turn:
                return best, known
    return _find_exchange(user_id, thread, messages)


def _newest_first(chain: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    newest_first = chain[::-1]
    yield newest_first[:LAST_FEW]
    for start in range(LAST_FEW, len(chain), BATCH_SIZE):
        yield newest_first[start : start + BATCH_SIZE]


def _find_exchange(
    user_id: UserId, thread: str, messages: Sequence[Message]
) -> tuple[Match, int] | None:
    """Find a conversation whose beginning the client left out, by its last replies."""
    exchanges = digests.digest_exchanges(user_id, messages)
    numbers = {digest: n for n, digest in enumerate(exchanges, start=1) if digest}
    wanted = list(numbers)[-MAX_EXCHANGES:]
    matches = _find(user_id, thread, "exchange_digest", wanted) if wanted else []
    if not matches:
        return None
    best = max(matches, key=lambda match: numbers[match.digest])
    own = StoredMessage.objects.of_thread(best.thread_id).filter(position=best.position)
    digest = own.values_list("digest", flat=True).get()
    return best._replace(digest=bytes(digest or b"")), numbers[best.digest]


def _find(
    user_id: UserId, thread: str, column: str, wanted: Sequence[bytes]
) -> list[Match]:
    """Return the user's messages with one of these digests, newest first."""
    rows = StoredMessage.objects.find(user_id, thread, column, wanted)
    return [Match(*row) for row in rows]


def make_current(
    user_id: UserId, place: Place, thread_id: int, length: int
) -> int | None:
    """Make the branch that ends at the place's parent the current one.

    Returns the parent of a new branch's first message, or None if it simply follows the
    newest message. The thread is locked, `length` is its length before the turn.
    """
    # A thread that is shorter has been erased in the meantime.
    if place.parent is None or place.parent >= length - 1:
        return None
    messages = StoredMessage.objects.of_thread(thread_id)
    if place.line:
        return _make_line_current(user_id, place, thread_id)
    fork, inactive = find_fork(thread_id, place.parent)
    later = messages.filter(position__gt=fork, is_active=True)
    if place.shares_thread:
        later = later.filter(position__in=_continuation(user_id, later, place.digest))
    if not later.update(is_active=False) and not inactive:
        return None
    for first, last in inactive:
        messages.filter(position__range=(first, last)).update(is_active=True)
    Thread.objects.branch_off(thread_id, fork)
    return place.parent


def _make_line_current(user_id: UserId, place: Place, thread_id: int) -> int | None:
    """Do the same in a thread that has messages of other conversations in between."""
    messages = StoredMessage.objects.of_thread(thread_id)
    rows = list(
        messages.filter(digest__in=place.line).only(
            "position", "turn_id", "digest", "is_active"
        )
    )
    shared = [row for row in rows if row.is_active]
    replaced: list[int] = []
    fork = shared[-1] if shared else None
    if fork is not None:
        later = messages.filter(position__gt=fork.position, is_active=True)
        replaced = _continuation(user_id, later, bytes(fork.digest or b""))
    turns = {row.turn_id for row in rows if not row.is_active}
    returned = messages.filter(
        Q(digest__in=place.line) | Q(digest=None, turn_id__in=turns), is_active=False
    )
    messages.filter(position__in=replaced).update(is_active=False)
    if not returned.update(is_active=True) and not replaced:
        return None
    first = NO_PARENT if fork is None else fork.position
    Thread.objects.branch_off(thread_id, first)
    return place.parent


def find_fork(thread_id: int, position: int) -> tuple[int, list[tuple[int, int]]]:
    """Return where the branch that ends at a position leaves the current one.

    With the ranges of positions on it that are not current.
    """
    inactive: list[tuple[int, int]] = []
    messages = StoredMessage.objects.of_thread(thread_id)
    while position >= 0:
        if messages.filter(position=position, is_active=True).exists():
            break
        starts = messages.filter(position__lte=position, parent_position__isnull=False)
        start = starts.order_by("-position").values_list("position", "parent_position")
        first, parent = next(iter(start[:1]), (0, NO_PARENT))
        shared = messages.filter(position__range=(first, position), is_active=True)
        fork = shared.aggregate(last=Max("position"))["last"]
        if fork is not None:
            inactive.append((fork + 1, position))
            return fork, inactive
        inactive.append((first, position))
        position = NO_PARENT if parent is None else parent
    return position, inactive


def _continuation(user_id: UserId, later: Any, digest: bytes | None) -> list[int]:
    """Return the positions of the messages that continue the one with a digest.

    Others in between are of other conversations: the default thread may have several.
    """
    positions: list[int] = []
    is_ours = True
    for row in later.only("position", "role", "text", "extra", "digest"):
        own = None if row.digest is None else bytes(row.digest)
        if own is not None:
            message = row.to_message()
            if digest is not None and own == digests.extend_digest(digest, message):
                is_ours = True
            elif own == digests.extend_digest(user_id.bytes, message):
                is_ours = False
            digest = own if is_ours else digest
        if is_ours:
            positions.append(row.position)
    return positions
