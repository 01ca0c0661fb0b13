"""Models of the users that memories belong to."""

from django.db import models


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


class PendingErasure(models.Model):
    """An erasure request that awaits confirmation."""

    user_id = models.UUIDField(unique=True)
    confirmation_digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"erasure of {self.user_id}"
