"""Models of conversations, extracted facts and the search index."""

import uuid
from typing import Any

from django.db import models
from django.db.models import Q

from memory.fields import TermsField, VectorField


class Thread(models.Model):
    """A conversation of a user; "" names the user's default conversation."""

    user_id = models.UUIDField()
    name = models.CharField(max_length=512, blank=True, default="")
    length = models.BigIntegerField(default=0)
    """The number of messages stored so far; also the next message's position."""
    summarised = models.BigIntegerField(db_default=0)
    """Summaries cover the messages before this position."""
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "name"], name="memory_thread_user_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id}/{self.name or 'default'}"


class StoredMessage(models.Model):
    """A message as it was sent. Never edited."""

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
    """How the reply ended; `cancelled` when the client left, `error` when it broke."""
    importance = models.FloatField(default=0.5)
    """From 0 to 1; the role's default, raised when an important fact is extracted."""
    consolidated_at = models.DateTimeField(null=True)
    """When a summary replaced it in prompts."""
    created_at = models.DateTimeField()

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
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.text[:60]}"


class Owner(models.Model):
    """A user with memories; the row is locked while the user's facts change."""

    user_id = models.UUIDField(unique=True)
    version = models.BigIntegerField(default=0)
    """Incremented on removals and new vectors, so that processes refresh their
    caches."""
    time_zone = models.CharField(max_length=64, blank=True, default="")
    """The IANA time zone that the client sent last; "" is UTC."""
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.user_id)


class FactCategory(models.TextChoices):
    """The subject of a fact."""

    PREFERENCE = "preference"
    FACT = "fact"
    EVENT = "event"
    RELATIONSHIP = "relationship"
    DECISION = "decision"
    GENERAL = "general"


class FactStatus(models.TextChoices):
    """The status of a fact; only active facts reach prompts."""

    ACTIVE = "active"
    HELD = "held"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    DELETED = "deleted"


class FactSource(models.TextChoices):
    """The origin of a fact."""

    EXTRACTION = "extraction"
    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"


class Fact(models.Model):
    """One thing known about one user."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user_id = models.UUIDField()
    content = models.TextField()
    category = models.CharField(max_length=16, choices=FactCategory, default="general")
    key = models.CharField(max_length=255, null=True)  # noqa: DJ001  NULL is not ""
    """Unique key: `category` + `key` identify one fact."""
    importance = models.SmallIntegerField(default=5)
    """1 is trivial, 10 critical."""
    status = models.CharField(max_length=16, choices=FactStatus, default="active")
    is_pinned = models.BooleanField(default=False)
    """Pinned facts do not expire, and prompts include them first."""
    source = models.CharField(max_length=16, choices=FactSource)
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent whose turn it was extracted from, or that saved it."""
    quote = models.TextField(blank=True, default="")
    """The user's own words that it was extracted from."""
    message = models.ForeignKey(StoredMessage, null=True, on_delete=models.SET_NULL)
    said_at = models.DateTimeField()
    """When the user said it: later statements win."""
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    superseded_by = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="supersedes"
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "category", "key"],
                condition=Q(status="active", key__isnull=False),
                name="memory_fact_user_category_key",
            ),
            models.CheckConstraint(
                condition=Q(importance__gte=1, importance__lte=10),
                name="memory_fact_importance",
            ),
        ]
        indexes = [
            models.Index(
                fields=["user_id", "status", "-created_at", "-id"],
                name="memory_fact_of_user",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(status="active", expires_at__isnull=False),
                name="memory_fact_expiring",
            ),
            models.Index(
                fields=["user_id"],
                condition=Q(status="active")
                & (Q(is_pinned=True) | Q(importance__gte=9)),
                name="memory_fact_standing",
            ),
        ]

    def __str__(self) -> str:
        return f"[{self.category}] {self.content[:60]}"


class FactChange(models.Model):
    """One step in the history of a fact: who, when, why, before and after."""

    fact = models.ForeignKey(Fact, on_delete=models.CASCADE, related_name="changes")
    user_id = models.UUIDField()
    at = models.DateTimeField()
    action = models.CharField(max_length=16)
    """created, updated, superseded, deleted, restored, pinned, unpinned, expired."""
    by = models.CharField(max_length=300)
    """`extraction`, `agent:NAME`, `user`, `mcp` (a client at /mcp) or `operator`."""
    reason = models.CharField(max_length=500, blank=True, default="")
    before: Any = models.JSONField(null=True)
    after: Any = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user_id", "at"], name="memory_change_of_user"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.by}"


class Passage(models.Model):
    """A searchable text: a fact or a message.

    Rows are never updated: a changed text gets a new row, so cached rows stay valid.
    """

    user_id = models.UUIDField()
    fact = models.OneToOneField(Fact, null=True, on_delete=models.CASCADE)
    message = models.OneToOneField(StoredMessage, null=True, on_delete=models.CASCADE)
    thread = models.ForeignKey(
        Thread,
        null=True,
        on_delete=models.CASCADE,
        db_index=False,
        # The message's own foreign key ensures it. Checking this one without an index
        # would read all passages of all users for each erased thread.
        db_constraint=False,
    )
    position = models.BigIntegerField(null=True)
    """The message's position in its thread; its window consists of its neighbours."""
    is_question = models.BooleanField(default=False)
    terms = TermsField()
    window_terms = TermsField(null=True)
    """The terms of a message and its neighbours; on PostgreSQL only."""
    embedder = models.CharField(max_length=128, blank=True, default="")
    """The embedder of the vector; "" if there is none yet."""
    dimensions = models.IntegerField(default=0)
    vector = VectorField(null=True)
    embedding_error = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(fact__isnull=False, message__isnull=True)
                | Q(fact__isnull=True, message__isnull=False),
                name="memory_passage_of_one",
            )
        ]
        indexes = [
            models.Index(fields=["user_id", "id"], name="memory_passage_of_user"),
            models.Index(fields=["embedder", "id"], name="memory_passage_embedder"),
        ]

    def __str__(self) -> str:
        return f"passage {self.pk}"


class ExtractionJob(models.Model):
    """A background job that extracts facts from one turn."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    user_id = models.UUIDField()
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE)
    turn_id = models.UUIDField()
    first_position = models.BigIntegerField()
    end_position = models.BigIntegerField()
    """The turn's messages: `first_position <= position < end_position`."""
    agent = models.CharField(max_length=255)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=16, choices=State, default="queued")
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField()
    """When it becomes claimable: at once, after a pause, or when a lease expires."""
    error = models.TextField(blank=True, default="")
    reply = models.TextField(blank=True, default="")
    """The model's reply, if it caused the failure."""
    facts_found = models.IntegerField(default=0)
    facts_saved = models.IntegerField(default=0)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["queued", "running"]),
                name="memory_extractionjob_due",
            ),
            models.Index(fields=["user_id", "id"], name="memory_extractionjob_of_user"),
            models.Index(
                fields=["id"],
                condition=Q(state="failed"),
                name="memory_extractionjob_failed",
            ),
        ]

    def __str__(self) -> str:
        return f"extraction job of turn {self.turn_id} ({self.state})"


class ConsolidationRun(models.Model):
    """One consolidation run and its counts."""

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

    def __str__(self) -> str:
        return f"consolidation of {self.started_at:%Y-%m-%d %H:%M}"


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

    class Meta:
        verbose_name_plural = "summaries"
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "first_position"], name="memory_summary_place"
            )
        ]

    def __str__(self) -> str:
        return f"summary of {self.first_position} to {self.end_position}"


class PendingErasure(models.Model):
    """An erasure request that awaits confirmation."""

    user_id = models.UUIDField(unique=True)
    confirmation_digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"erasure of {self.user_id}"
