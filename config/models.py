"""The studio's overrides of the file, and their history."""

from django.db import models
from django.db.models import Q


class Override(models.Model):
    """An entry that replaces the file's, or disables that name."""

    section = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    body = models.TextField(blank=True, default="")
    """The entry's YAML text."""
    is_tombstone = models.BooleanField(default=False)
    version = models.BigIntegerField()
    """The id of the `OverrideVersion` that created this state."""
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=512)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["section", "name"], name="config_override_name"
            ),
            models.CheckConstraint(
                condition=Q(is_tombstone=False) | Q(body=""),
                name="config_override_tombstone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.section} {self.name}"


class OverrideAction(models.TextChoices):
    """The kinds of change of an entry."""

    SAVED = "saved"
    TOMBSTONED = "tombstoned"
    RESET = "reset"
    REMOVED = "removed"


class OverrideVersion(models.Model):
    """A change of an entry; processes compare the newest id to detect changes."""

    section = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    action = models.CharField(max_length=16, choices=OverrideAction)
    body = models.TextField(blank=True, default="")
    """The saved text."""
    at = models.DateTimeField()
    by = models.CharField(max_length=512)

    class Meta:
        indexes = [
            models.Index(fields=["section", "name", "id"], name="config_version_name")
        ]

    def __str__(self) -> str:
        return f"{self.section} {self.name} {self.action}"
