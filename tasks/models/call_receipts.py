"""The model of calls that a client may repeat, such as those of tools."""

from datetime import datetime, timedelta
from uuid import UUID

import orjson
from django.db import models

from core.ids import UserId

LIFETIME = timedelta(hours=1)
"""The time in which a call may be repeated."""


class CallReceiptQuerySet(models.QuerySet["CallReceipt"]):
    def expired(self, now: datetime) -> "CallReceiptQuerySet":
        return self.filter(begun_at__lte=now - LIFETIME).order_by("begun_at")

    def set_output(self, output: str) -> int:
        """Store the output of these calls; return how many they are."""
        return self.update(data=orjson.dumps(output).decode())


class CallReceipt(models.Model):
    """A call that ran or still runs: a repetition returns its output."""

    key = models.CharField(max_length=64, unique=True)
    """The digest of its user and its request."""
    user_id: "models.UUIDField[UUID, UserId]" = models.UUIDField(db_index=True)
    data = models.TextField(null=True)  # noqa: DJ001
    """The output, as JSON, which may contain NUL; null while it runs."""
    begun_at = models.DateTimeField(db_index=True)

    objects = CallReceiptQuerySet.as_manager()

    def __str__(self) -> str:
        return f"call {self.key}"

    @property
    def output(self) -> str | None:
        """The output; None while the call runs."""
        return None if self.data is None else str(orjson.loads(self.data))
