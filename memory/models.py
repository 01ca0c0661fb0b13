"""Threads of conversation and the messages in them."""

from django.db import models


class Thread(models.Model):
    """One conversation of one user; a user who names none has the one called ""."""

    user_id = models.UUIDField()
    name = models.CharField(max_length=512, blank=True, default="")
    length = models.BigIntegerField(default=0)
    """How many messages it has had; the next one's position."""
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


class Message(models.Model):
    """One message, as it was said. Never edited."""

    thread = models.ForeignKey(
        Thread,
        on_delete=models.CASCADE,
        related_name="messages",
        # The unique constraint's index is the one to walk; with another beside it
        # PostgreSQL picks that and reads the whole thread.
        db_index=False,
    )
    position = models.BigIntegerField()
    turn_id = models.UUIDField()
    role = models.CharField(max_length=16)
    text = models.TextField(blank=True, default="")
    extra = models.TextField(blank=True, default="")
    """JSON of what plain text cannot hold: content parts, tool calls, thinking."""
    tokens = models.IntegerField()
    agent = models.CharField(max_length=255, blank=True, default="")
    """Who spoke, on assistant messages."""
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    """How the reply ended; `cancelled` when the client left, `error` when it broke."""
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "position"], name="memory_message_thread_position"
            )
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.text[:60]}"
