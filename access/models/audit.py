"""The audit."""

from datetime import datetime

from django.db import models
from django.db.models import Value
from django.db.models.functions import Concat, Left, StrIndex

from config import retention


class AuditEntryQuerySet(models.QuerySet["AuditEntry"]):
    def of_action(self, name: str) -> "AuditEntryQuerySet":
        """Return the entries of an action; `token` matches every `token.…`."""
        return self.filter(**{"action" if "." in name else "family": name})

    def expired(self, now: datetime) -> "AuditEntryQuerySet":
        """Return the entries past `retention.audit_days`, oldest first."""
        return retention.older_rows(self, "audit_days", "at", now)

    def newest_first(self) -> "AuditEntryQuerySet":
        """Return the entries in the order of lists."""
        return self.order_by("-at", "-id")


class AuditEntry(models.Model):
    """A change that an operator or a user made."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=512)
    """The name of the actor."""
    action = models.CharField(max_length=64)
    """The action, such as `token.create`."""
    family = models.GeneratedField(
        expression=Left(
            "action", StrIndex(Concat("action", Value(".")), Value(".")) - 1
        ),
        output_field=models.CharField(max_length=64),
        db_persist=True,
    )
    """`token` of `token.create`."""
    target = models.CharField(max_length=512, blank=True, default="")
    """The changed object."""
    details = models.JSONField(default=dict)
    """More details; never a secret."""
    origin = models.CharField(max_length=255, blank=True, default="")
    """The source: an address, or the command line."""
    request_id = models.CharField(max_length=128, blank=True, default="")

    objects = AuditEntryQuerySet.as_manager()

    class Meta:
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["at", "id"], name="access_audit_at"),
            models.Index(fields=["action", "at"], name="access_audit_action"),
            models.Index(fields=["family", "at", "id"], name="access_audit_family"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target}"
