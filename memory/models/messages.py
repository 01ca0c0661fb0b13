"""The model of messages."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, cast
from uuid import UUID

from django.db import IntegrityError, connection, models
from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan
from django.utils.module_loading import import_string

from config import live
from core.ids import TurnId
from core.messages import Message, Role
from memory.config import MEMORY, USER_SCOPE
from memory.errors import UserErased
from memory.models import plain_sql
from memory.models.owners import ERASED_SQL
from memory.models.threads import Thread
from memory.recall.types import MessageHit
from memory.transcript.message_rows import (
    NewMessage,
    message_from_row,
    own_call_ids,
)

HIGH_IMPORTANCE = 0.5
"""Few messages are above it. The partial index repeats this condition literally."""
MAX_EXTRA_LENGTH = 200_000
"""Characters of `extra` that operators' pages read; larger values contain files."""
MAX_FOUND = 200
"""Messages with the same digest: conversations may have the same beginning."""
MAX_EXPIRED = 1000
"""The oldest rows, among which expired ones are looked for at a time."""
BATCH_SIZE = 1000
"""Rows per INSERT: databases limit the parameters of a statement."""

BY_PASSAGE_SQL = """
    SELECT p.id, m.id, t.name, m.position, m.role, m.text, m.agent, m.importance,
        m.created_at, p.scope
    FROM memory_passage p JOIN memory_message m ON m.id = p.message_id
        JOIN memory_thread t ON t.id = m.thread_id
    WHERE p.user_id = %s AND t.user_id = %s AND m.is_active AND NOT m.is_withheld
        AND p.id IN
"""
IMPORTANT_SQL = """
    SELECT m.id, t.name, m.position, m.role, m.text, m.agent, m.importance, m.created_at
    FROM memory_message m JOIN memory_thread t ON t.id = m.thread_id
    WHERE m.thread_id = %s AND position < %s AND importance >= %s {high_importance}
        AND is_active AND NOT is_withheld
        AND role IN ('user', 'assistant') AND text <> ''
    ORDER BY position DESC LIMIT %s
"""
NEWEST_SQL = """
    SELECT m.position, m.tokens, m.role, m.text, m.extra,
        t.id, t.length, t.summarized_until, t.revision, t.session_start, m.is_withheld
    FROM memory_thread t JOIN memory_message m ON m.thread_id = t.id
    WHERE t.user_id = %s AND t.name = %s AND m.position >= t.length - %s
        AND m.is_active
    ORDER BY m.position
"""
"""Limited by position instead of LIMIT: PostgreSQL assumes that a thread has average
length, and would read and sort all of a long one. Withheld messages are returned, too:
without a row, the thread would count as empty."""
BETWEEN_SQL = """
    SELECT position, tokens, role, text, extra FROM memory_message
    WHERE thread_id = %s AND position >= %s AND position < %s AND is_active
        AND NOT is_withheld
    ORDER BY position
"""
FIND_SQL = """
    SELECT m.{column}, m.thread_id, t.name, m.position, m.is_active, m.turn_id, t.length
    FROM memory_message m JOIN memory_thread t ON t.id = m.thread_id
    WHERE t.user_id = %s AND (%s OR t.name = %s) AND m.{column} IN ({marks})
    ORDER BY m.id DESC LIMIT {limit}
"""
INSERT_SQL = """
    INSERT INTO memory_message (thread_id, position, turn_id, role, text, extra,
        tokens, agent, finish_reason, importance, created_at, digest, exchange_digest,
        parent_position) VALUES
"""
ROW_SQL = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
UNLESS_ERASED = f"CASE WHEN {ERASED_SQL} THEN NULL ELSE %s END"
"""The thread of a row; null, which the table refuses, if the user was erased. This
costs a fifth of `RETURNING`."""


class StoredMessageQuerySet(models.QuerySet["StoredMessage"]):
    """Messages of threads."""

    def expired(self, now: datetime) -> "StoredMessageQuerySet":
        """Return those of the oldest rows that are older than messages are kept.

        Only these are looked at, because an index of times would cost every turn.
        """
        days = live.current().get(MEMORY).keep_days.messages
        if days is None:
            return self.none()
        oldest = self.order_by("pk").values("pk")[:MAX_EXPIRED]
        old = self.filter(pk__in=oldest, created_at__lt=now - timedelta(days=days))
        return old.order_by("pk")

    def delete_rows(self, ids: Sequence[int]) -> None:
        """Delete messages, with what search and summaries have of them."""
        # By its name, because it uses the models of other modules.
        import_string("memory.transcript.message_deletion.delete_old_messages")(ids)

    def of_thread(self, thread_id: int) -> "StoredMessageQuerySet":
        """Return the messages of a thread, oldest first."""
        return self.filter(thread_id=thread_id).order_by("position")

    def newest_page(
        self, before: int | None, limit: int
    ) -> tuple[list["StoredMessage"], bool]:
        """Return the newest messages of a thread before a position, oldest first, and
        whether there are more; the cost does not depend on the thread's length."""
        page = list(self.before(before).order_by("-position")[: limit + 1])
        return page[:limit][::-1], len(page) > limit

    def before(self, position: int | None) -> "StoredMessageQuerySet":
        """Return the messages before a position of their thread; None: all."""
        return self if position is None else self.filter(position__lt=position)

    def since(self, position: int) -> "StoredMessageQuerySet":
        """Return the messages from a position of their thread on."""
        return self.filter(position__gte=position)

    def without_files(self) -> "StoredMessageQuerySet":
        """Read `extra` only if it is small; `extra_size` has its size always."""
        small = When(extra_size__lte=MAX_EXTRA_LENGTH, then=F("extra"))
        shown = Case(small, default=Value(""), output_field=TextField())
        sized = self.annotate(extra_size=Length("extra"))
        return sized.annotate(small_extra=shown).defer("extra")

    def for_models(self) -> "StoredMessageQuerySet":
        """Return the messages that models may receive: of the current branch, and
        without those that mention a forgotten fact."""
        return self.filter(is_active=True, is_withheld=False)

    def find_reply(
        self, user_id: UUID, turn_id: UUID, *, is_locked: bool = False
    ) -> "StoredMessage | None":
        """Return the last message of a user's turn, without its content, or None.

        With `is_locked`, the user cannot be erased until the caller's transaction ends.
        """
        found = self.replies(user_id, [turn_id])
        if is_locked:
            found = found.select_for_update(of=("thread",), no_key=True)
        return next(iter(found[:1]), None)

    def replies(
        self, user_id: UUID, turn_ids: Collection[UUID]
    ) -> "StoredMessageQuerySet":
        """Return the last messages of a user's turns, without their content."""
        found = self.filter(turn_id__in=turn_ids, thread__user_id=user_id)
        # Literally the condition of the partial index: SQLite needs it to use that.
        found = found.filter(GreaterThan(F("finish_reason"), RawSQL("''", ())))
        columns = ("position", "turn_id", "agent", "finish_reason")
        thread_columns = ("thread__user_id", "thread__name")
        return found.select_related("thread").only(*columns, *thread_columns)

    def turn_ids(self, user_id: UUID, thread: str) -> list[UUID]:
        """Return the ids of all turns of a thread, in their order."""
        rows = self.filter(thread__user_id=user_id, thread__name=thread)
        found = rows.order_by("position").values_list("turn_id", flat=True)
        return list(dict.fromkeys(found))

    def of_turns(
        self, replies: "Iterable[StoredMessage]", max_messages: int
    ) -> "StoredMessageQuerySet":
        """Return the turns of these replies, of each at most the last messages, in
        the order of threads and positions."""
        turns = (
            Q(
                thread_id=reply.thread_id,
                turn_id=reply.turn_id,
                position__gt=reply.position - max_messages,
                position__lte=reply.position,
            )
            for reply in replies
        )
        return self.filter(reduce(or_, turns)).order_by("thread_id", "position")


StoredMessageBaseManager = models.Manager.from_queryset(StoredMessageQuerySet)


class StoredMessageManager(StoredMessageBaseManager["StoredMessage"]):
    """What every turn reads and writes, as `memory.models.plain_sql` explains.

    Storing two messages takes 120 µs of CPU time on SQLite.
    """

    def newest(
        self, user_id: UUID, thread: str, *, count: int
    ) -> list[tuple[Any, ...]]:
        """Return the newest messages of a thread, oldest first.

        Rows have position, tokens, role, text, extra, and the thread's id, length,
        `summarized_until`, `revision` and `session_start`, and whether the message is
        withheld.
        """
        values = [plain_sql.to_sql_id(user_id), thread, count]
        return plain_sql.fetch_rows(NEWEST_SQL, values)

    def between(self, thread_id: int, first: int, end: int) -> list[tuple[Any, ...]]:
        """Return position, tokens, role, text and extra, oldest first."""
        return plain_sql.fetch_rows(BETWEEN_SQL, [thread_id, first, end])

    def find(
        self, user_id: UUID, thread: str, column: str, wanted: Sequence[bytes]
    ) -> list[tuple[Any, ...]]:
        """Return the user's newest messages with one of these digests in a column.

        Only of one thread, if it is given. Rows have the digest, the thread's id and
        name, position, `is_active`, the turn's id as stored, and the thread's length.
        """
        marks = ", ".join(["%s"] * len(wanted))
        query = FIND_SQL.format(column=column, marks=marks, limit=MAX_FOUND)
        values = [plain_sql.to_sql_id(user_id), not thread, thread, *wanted]
        return [
            (bytes(digest), thread_id, name, position, bool(active), turn, length)
            for digest, thread_id, name, position, active, turn, length in (
                plain_sql.fetch_rows(query, values)
            )
        ]

    def append(
        self,
        thread_id: int,
        first: int,
        turn_id: TurnId,
        entries: Sequence[NewMessage],
        now: datetime,
        *,
        parent: int | None = None,
        unless_erased: Sequence[Any] = (),
    ) -> None:
        """Store messages at positions from `first` on.

        `parent` is the position that they follow if they begin a branch. With the
        values of `ERASED_SQL`, raises `UserErased` if the user was. The caller has
        locked the thread, for which an erasure waits.
        """
        at, turn = plain_sql.to_sql_time(now), plain_sql.to_sql_id(turn_id)
        rows = [
            (
                thread_id,
                position,
                turn,
                entry.message.role,
                entry.text,
                entry.extra,
                entry.tokens,
                entry.agent,
                entry.finish_reason,
                entry.importance,
                at
                if entry.created_at is None
                else plain_sql.to_sql_time(entry.created_at),
                entry.digest,
                entry.exchange_digest,
                parent if position == first else None,
            )
            for position, entry in enumerate(entries, start=first)
        ]
        with connection.cursor() as cursor:
            for start in range(0, len(rows), BATCH_SIZE):
                batch = rows[start : start + BATCH_SIZE]
                values = [value for row in batch for value in row]
                query = INSERT_SQL + ", ".join([ROW_SQL] * len(batch))
                if unless_erased:
                    query = query.replace("%s", UNLESS_ERASED, 1)
                try:
                    cursor.execute(query, [*unless_erased, *values])
                except IntegrityError as exc:
                    if unless_erased and "null" in str(exc).casefold():
                        raise UserErased from exc
                    raise

    def by_passage(
        self, user_id: UUID, passage_ids: Sequence[int]
    ) -> dict[int, MessageHit]:
        """Return the user's messages behind passages."""
        rows = plain_sql.fetch_of_passages(BY_PASSAGE_SQL, user_id, passage_ids)
        return {row[0]: _read_hit(*row[1:-1], scope=row[-1]) for row in rows}

    def important(
        self, thread_id: int, *, before: int, min_importance: float, limit: int
    ) -> list[MessageHit]:
        """Return a thread's newest important messages before a position."""
        condition = f"AND importance > {HIGH_IMPORTANCE}"
        query = IMPORTANT_SQL.format(
            high_importance=condition if min_importance > HIGH_IMPORTANCE else ""
        )
        rows = plain_sql.fetch_rows(query, [thread_id, before, min_importance, limit])
        return [_read_hit(*row) for row in rows]


def _read_hit(number: int, *columns: Any, scope: str = USER_SCOPE) -> MessageHit:
    thread, position, role, text, agent, importance, created_at = columns
    at = plain_sql.read_time(created_at)
    return MessageHit(
        number, thread, position, role, text, agent, importance, at, scope
    )


class StoredMessage(models.Model):
    """A message as it was sent. A purge alone edits it: it removes the content."""

    thread = models.ForeignKey(
        Thread,
        on_delete=models.CASCADE,
        related_name="messages",
        # Queries use the unique constraint's index; with a second one PostgreSQL would
        # pick that and read the whole thread.
        db_index=False,
    )
    position = models.BigIntegerField()
    turn_id = models.UUIDField()
    role = models.CharField(max_length=16)
    text = models.TextField(blank=True, default="")
    extra = models.TextField(blank=True, default="")
    """JSON of what plain text cannot hold: content parts, tool calls, reasoning."""
    tokens = models.IntegerField()
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent, on assistant messages."""
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    """How the reply ended; `cancelled`: the client left, `error`: the turn failed."""
    importance = models.FloatField(default=0.5)
    """From 0 to 1; the role's default, raised when an important fact is extracted."""
    summarized_at = models.DateTimeField(null=True)
    """When a summary replaced it in prompts."""
    created_at = models.DateTimeField()
    is_active = models.BooleanField(db_default=True)
    """Whether it is on the thread's current branch. The others are kept and shown, but
    no prompt contains them, and no facts are extracted from them."""
    is_withheld = models.BooleanField(db_default=False)
    """Whether only its user sees it: it mentions a forgotten fact (`forgetting`), or a
    safety check refused it."""
    parent_position = models.BigIntegerField(null=True)
    """The message before it, where a branch begins; -1 if there is none. None: the
    position before its own."""
    digest = models.BinaryField(null=True)
    """Of the conversation up to it, as its client sees it (`transcript.digests`)."""
    exchange_digest = models.BinaryField(null=True)
    """Of a reply and its question alone."""

    objects = StoredMessageManager()

    class Meta:
        db_table = "memory_message"
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "position"], name="memory_message_thread_position"
            )
        ]
        indexes = [
            # Only the few important messages are in this index.
            models.Index(
                fields=["thread", "position"],
                condition=Q(importance__gt=0.5),
                name="memory_message_important",
            ),
            # A turn is found by its reply; its other messages precede the reply.
            models.Index(
                fields=["turn_id"],
                condition=Q(finish_reason__gt=""),
                name="memory_message_reply",
            ),
            models.Index(fields=["digest"], name="memory_message_digest"),
            models.Index(
                fields=["exchange_digest"],
                condition=Q(exchange_digest__isnull=False),
                name="memory_message_exchange",
            ),
            models.Index(
                fields=["thread", "position"],
                condition=Q(parent_position__isnull=False),
                name="memory_message_branch",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.text[:60]}"

    @property
    def is_summarized(self) -> bool:
        """Whether prompts have a summary instead."""
        return self.summarized_at is not None

    @property
    def is_of_own_tools(self) -> bool:
        """Whether it has calls or results of the agent's own tools."""
        return bool(own_call_ids(self.extra))

    def to_message(self) -> Message:
        """Return the message as it was sent."""
        return message_from_row(cast(Role, self.role), self.text, self.extra)
