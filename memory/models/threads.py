"""Models of conversations: threads, and summaries of old messages."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction
from django.db.models import F, Min, Q

from config import retention
from memory.models import plain_sql

LOCK_CONSOLIDATION_SQL = (
    "SELECT pg_advisory_xact_lock(hashtext('memory_consolidation'), 0)"
)
LOCK_USER_SQL = "SELECT pg_advisory_xact_lock(hashtext('memory_user'), hashtext(%s))"
STATE_SQL = """
    SELECT id, length, summarized_until, revision, session_start FROM memory_thread
    WHERE user_id = %s AND name = %s
"""
RESERVE_POSITIONS_SQL = """
    INSERT INTO memory_thread
        (user_id, name, length, session_start, created_at, updated_at)
    VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (user_id, name) DO UPDATE SET
        length = memory_thread.length + excluded.length,
        session_start = coalesce(
            memory_thread.session_start,
            excluded.session_start + memory_thread.length
        ),
        updated_at = excluded.updated_at
    RETURNING id, length
"""


class ThreadQuerySet(models.QuerySet["Thread"]):
    """Threads of users."""

    def recently_active(self) -> "ThreadQuerySet":
        """Return threads, most recently active first."""
        return self.order_by("-updated_at", "-id")

    def page_of_user(
        self, user_id: UUID, after: "Thread | None", limit: int
    ) -> "list[Thread]":
        """Return threads of a user, most recently active first, after this one."""
        rows = self.filter(user_id=user_id).recently_active()
        if after is not None:
            is_same_time = Q(updated_at=after.updated_at, pk__lt=after.pk)
            rows = rows.filter(Q(updated_at__lt=after.updated_at) | is_same_time)
        return list(rows[:limit])

    def in_session(self, idle_since: datetime | None = None) -> "ThreadQuerySet":
        """Return threads with an open session; those without a turn since a time."""
        rows = self.filter(session_start__isnull=False)
        return rows.filter(updated_at__lte=idle_since) if idle_since else rows

    def summarizable(self) -> "ThreadQuerySet":
        """Return threads long enough for a summary."""
        shortest = F("summarized_until") + RECENT_MESSAGES + MIN_SUMMARIZED
        return self.filter(length__gte=shortest)


ThreadBaseManager = models.Manager.from_queryset(ThreadQuerySet)


class ThreadManager(ThreadBaseManager["Thread"]):
    """What every turn reads and writes, as `memory.models.plain_sql` explains."""

    def state(self, user_id: UUID, name: str) -> tuple[Any, ...] | None:
        """Return a thread's id, length, `summarized_until`, `revision` and
        `session_start`, or None."""
        rows = plain_sql.fetch_rows(STATE_SQL, [plain_sql.to_sql_id(user_id), name])
        return rows[0] if rows else None

    def lock_of_user(self, user_id: UUID) -> None:
        """Let no other transaction find or delete a conversation of the user."""
        if connection.vendor == "postgresql":
            # SQLite has one writer at a time anyway.
            plain_sql.fetch_rows(LOCK_USER_SQL, [str(user_id)])

    def reserve_positions(
        self,
        user_id: UUID,
        name: str,
        count: int,
        now: datetime,
        *,
        opens_session: bool = False,
    ) -> tuple[int, int]:
        """Lengthen a thread, created if missing; return its id and new length.

        With `opens_session`, the first new message begins a session, unless one is
        open. The thread stays locked for this transaction, so that turns of several
        processes do not interleave.
        """
        at = plain_sql.to_sql_time(now)
        session_start = 0 if opens_session else None
        values = [plain_sql.to_sql_id(user_id), name, count, session_start, at, at]
        ((thread_id, length),) = plain_sql.fetch_rows(RESERVE_POSITIONS_SQL, values)
        return thread_id, length

    def branch_off(self, thread_id: int, position: int) -> None:
        """Note that other messages are current after a position of a thread.

        Summaries of what came after it are deleted. Locks nothing: the caller has.
        """
        summaries = Summary.objects.filter(
            thread_id=thread_id, end_position__gt=position + 1
        )
        first = summaries.aggregate(first=Min("first_position"))["first"]
        if first is not None:
            summaries.delete()
            self.filter(pk=thread_id).update(summarized_until=first)
            messages = self.get(pk=thread_id).messages.filter(position__gte=first)
            messages.update(summarized_at=None)
        self.filter(pk=thread_id).update(revision=F("revision") + 1)


RECENT_MESSAGES = 10
"""The newest messages of a thread, which are never summarized."""
MAX_TITLE_LENGTH = 200
MIN_SUMMARIZED = 20
"""The fewest old messages that justify a summary."""


class Thread(models.Model):
    """A conversation of a user; "" names the user's default conversation."""

    user_id = models.UUIDField()
    name = models.CharField(max_length=512, blank=True, default="")
    length = models.BigIntegerField(default=0)
    """The number of messages stored so far; also the next message's position."""
    summarized_until = models.BigIntegerField(db_default=0)
    """Summaries cover the messages before this position."""
    revision = models.IntegerField(db_default=0)
    """How often its current messages changed other than by new ones."""
    session_start = models.BigIntegerField(null=True)
    """The position of the first message of its open session; None: none is open."""
    title = models.CharField(
        max_length=MAX_TITLE_LENGTH, blank=True, default="", db_default=""
    )
    """As its user named it; the name is what clients continue it by."""
    metadata = models.TextField(blank=True, default="", db_default="")
    """JSON of what its client noted about it; "" for nothing."""
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = ThreadManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "name"], name="memory_thread_user_name"
            )
        ]
        indexes = [
            # The sweep looks for those without a turn for some time.
            models.Index(
                fields=["updated_at"],
                condition=Q(session_start__isnull=False),
                name="memory_thread_in_session",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id}/{self.name or 'default'}"

    def summarizable_end(self, cutoff: datetime) -> int | None:
        """Return the position up to which it can be summarized, or None.

        Messages after `cutoff` and the newest messages are excluded. A user's message
        is at the returned position.
        """
        messages = self.messages.filter(
            position__gte=self.summarized_until, is_active=True
        )
        recent = messages.filter(created_at__gt=cutoff).order_by("position").first()
        end = self.length - RECENT_MESSAGES
        if recent is not None:
            end = min(end, recent.position)
        if end - self.summarized_until < MIN_SUMMARIZED:
            return None
        questions = messages.filter(
            position__gt=self.summarized_until, position__lte=end, role="user"
        )
        last = questions.order_by("-position").values_list("position", flat=True)
        return last.first()


class ConsolidationRunQuerySet(models.QuerySet["ConsolidationRun"]):
    def expired(self, now: datetime) -> "ConsolidationRunQuerySet":
        """Return the runs past `retention.consolidation_days`, oldest first."""
        return retention.older_rows(self, "consolidation_days", "started_at", now)

    def start(
        self, now: datetime, *, interval: timedelta | None
    ) -> "ConsolidationRun | None":
        """Create and return a run, unless a complete one began within the interval.

        Of concurrent callers, one creates a run. Without an interval, each does.
        """
        with transaction.atomic():
            if connection.vendor == "postgresql":
                # SQLite has one writer at a time anyway.
                plain_sql.fetch_rows(LOCK_CONSOLIDATION_SQL, [])
            last = self.order_by("-started_at").first()
            if last and interval and last.is_complete_since(now - interval):
                return None
            return self.create(started_at=now)


class ConsolidationRun(models.Model):
    UNFINISHED = "limit reached; the next run continues"

    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    is_dry_run = models.BooleanField(default=False)
    threads = models.IntegerField(default=0)
    messages = models.IntegerField(default=0)
    summaries = models.IntegerField(default=0)
    failures = models.IntegerField(default=0)
    tokens_before = models.BigIntegerField(default=0)
    tokens_after = models.BigIntegerField(default=0)
    error = models.TextField(blank=True, default="")

    objects = ConsolidationRunQuerySet.as_manager()

    def is_complete_since(self, since: datetime) -> bool:
        """Return whether it began after a time, and left nothing for a next run."""
        has_rest = self.finished_at is not None and self.error == self.UNFINISHED
        return self.started_at > since and not has_rest

    def __str__(self) -> str:
        return f"consolidation of {self.started_at:%Y-%m-%d %H:%M}"


REWRITE_LEASE = timedelta(minutes=30)
"""The time for writing an emptied summary again; also the delay after a failure."""


class SummaryQuerySet(models.QuerySet["Summary"]):
    def make_empty(self, now: datetime) -> None:
        """Remove what summaries say; the next consolidation writes them again."""
        self.update(text="", tokens=0, rewrite_at=now)

    def claim_empty(self, now: datetime) -> "Summary | None":
        """Return an emptied summary and its thread; one worker gets each."""
        due = self.filter(rewrite_at__lte=now)
        while row := due.select_related("thread").order_by("rewrite_at").first():
            if due.filter(pk=row.pk).update(rewrite_at=now + REWRITE_LEASE):
                return row
        return None


class Summary(models.Model):
    """A summary of messages of a thread; the messages stay stored."""

    user_id = models.UUIDField()
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE)
    first_position = models.BigIntegerField()
    end_position = models.BigIntegerField()
    text = models.TextField()
    tokens = models.IntegerField()
    model = models.CharField(max_length=255)
    run = models.ForeignKey(ConsolidationRun, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField()
    rewrite_at = models.DateTimeField(null=True)
    """When the text, which was removed to forget a fact, is written again."""

    objects = SummaryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "summaries"
        indexes = [
            models.Index(
                fields=["rewrite_at"],
                condition=Q(rewrite_at__isnull=False),
                name="memory_summary_emptied",
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "first_position"], name="memory_summary_place"
            )
        ]

    def __str__(self) -> str:
        return f"summary of {self.first_position} to {self.end_position}"

    def rewrite(self, text: str, tokens: int) -> bool:
        """Set the text of an emptied summary, unless messages changed since it was
        read with its thread."""
        with transaction.atomic():
            # Locked, because a transaction that empties summaries increments it.
            threads = Thread.objects.select_for_update(no_key=True)
            revision = self.thread.revision
            if not threads.filter(pk=self.thread_id, revision=revision).exists():
                return False
            rows = Summary.objects.filter(pk=self.pk, text="")
            return bool(rows.update(text=text, tokens=tokens, rewrite_at=None))

    def store(self, now: datetime) -> bool:
        """Store it and mark its messages; False if another was stored first.

        Also False if messages were withheld meanwhile, or the user was erased.
        """
        with transaction.atomic():
            is_next = Thread.objects.filter(
                pk=self.thread_id,
                user_id=self.user_id,
                summarized_until=self.first_position,
                revision=self.thread.revision,
            ).update(summarized_until=self.end_position)
            if not is_next:
                return False
            self.save()
            self.thread.messages.filter(
                position__gte=self.first_position, position__lt=self.end_position
            ).update(summarized_at=now)
        return True
