"""Models of conversations: threads, messages, and summaries of old messages."""

from django.db import models
from django.db.models import Q


class Thread(models.Model):
    """A conversation of a user; "" names the user's default conversation."""

    user_id = models.UUIDField()
    name = models.CharField(max_length=512, blank=True, default="")
    length = models.BigIntegerField(default=0)
    """The number of messages stored so far; also the next message's position."""
    summarized_until = models.BigIntegerField(db_default=0)
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
    """How the reply ended; `cancelled`: the client left, `error`: the turn failed."""
    importance = models.FloatField(default=0.5)
    """From 0 to 1; the role's default, raised when an important fact is extracted."""
    summarized_at = models.DateTimeField(null=True)
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
