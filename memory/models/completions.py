"""The model of chat completions that their client can list."""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import models

from core.ids import TurnId
from memory.models.messages import StoredMessage

MAX_SCANNED = 10_000
"""Completions that one request for a list reads."""


class StoredCompletionQuerySet(models.QuerySet["StoredCompletion"]):
    """Completions made with `store: true`."""

    def record(
        self, user_id: uuid.UUID, turn_id: TurnId, metadata: Mapping[str, str]
    ) -> None:
        """List a turn's reply; call it in the transaction that stores the turn."""
        reply = StoredMessage.objects.find_reply(user_id, turn_id)
        if reply is not None:
            self.create(message=reply, user_id=user_id, metadata=_storable(metadata))

    def of_turn(self, user_id: uuid.UUID, turn_id: TurnId) -> "StoredCompletion | None":
        """Return the completion of a user's turn, or None."""
        reply = StoredMessage.objects.find_reply(user_id, turn_id)
        return None if reply is None else self.filter(message_id=reply.pk).first()

    def of_user(
        self,
        user_id: uuid.UUID,
        *,
        agent: str | None,
        after: int | None,
        is_descending: bool,
    ) -> "Iterator[StoredCompletion]":
        """Yield a user's completions in the order of their replies, at most
        `MAX_SCANNED`; `after` is the key of the last one of the page before."""
        rows = self.filter(user_id=user_id).select_related("message")
        if agent is not None:
            rows = rows.filter(message__agent=agent)
        if after is not None:
            step = "lt" if is_descending else "gt"
            rows = rows.filter(**{f"message_id__{step}": after})
        rows = rows.order_by("-message_id" if is_descending else "message_id")
        return rows[:MAX_SCANNED].iterator(chunk_size=200)


class StoredCompletion(models.Model):
    """A chat completion that its client can list, read and change."""

    message = models.OneToOneField(
        StoredMessage, on_delete=models.CASCADE, primary_key=True
    )
    """The reply."""
    user_id = models.UUIDField()
    metadata: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    """As in the request, of at most 16 pairs."""

    objects = models.Manager.from_queryset(StoredCompletionQuerySet)()

    class Meta:
        db_table = "memory_completion"
        indexes = [
            models.Index(fields=["user_id", "message"], name="memory_completion_user")
        ]

    def set_metadata(self, metadata: Mapping[str, str]) -> None:
        """Replace the stored metadata, unless the completion was deleted meanwhile."""
        self.metadata = _storable(metadata)
        rows = StoredCompletion.objects.filter(pk=self.pk)
        rows.update(metadata=self.metadata)

    def __str__(self) -> str:
        return str(self.message_id)


def _storable(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata without NUL characters, which PostgreSQL does not store."""
    return {
        key.replace("\0", "\ufffd"): value.replace("\0", "\ufffd")
        for key, value in metadata.items()
    }
