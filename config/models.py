"""What the studio says over the file, and all it ever said."""

from django.db import models
from django.db.models import Q


class Override(models.Model):
    """An entry that runs in place of the file's, or word that none of its name does."""

    section = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    body = models.TextField(blank=True, default="")
    """The entry as it was written, in YAML."""
    is_tombstone = models.BooleanField(default=False)
    version = models.BigIntegerField()
    """The id of the `OverrideVersion` that made it so."""
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
    """What somebody did to an entry."""

    SAVED = "saved"
    TOMBSTONED = "tombstoned"
    RESET = "reset"
    REMOVED = "removed"


class OverrideVersion(models.Model):
    """A change of an entry; the newest id tells processes whether to look again."""

    section = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    action = models.CharField(max_length=16, choices=OverrideAction)
    body = models.TextField(blank=True, default="")
    """What was saved."""
    at = models.DateTimeField()
    by = models.CharField(max_length=512)

    class Meta:
        indexes = [
            models.Index(fields=["section", "name", "id"], name="config_version_name")
        ]

    def __str__(self) -> str:
        return f"{self.section} {self.name} {self.action}"
