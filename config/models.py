"""The studio's overrides of the file, and their history."""

from datetime import UTC, datetime
from typing import Any, Self

from django.db import connection, models, transaction
from django.db.models import Q

from config import live
from config.loading.overlays import Overlay, Overlays
from config.overrides import change_notices


class OverrideAction(models.TextChoices):
    SAVED = "saved"
    TOMBSTONED = "tombstoned"
    RESET = "reset"
    REMOVED = "removed"


class OverrideQuerySet(models.QuerySet["Override"]):
    """The overrides in force."""

    def get_or_none(self, section: str, name: str) -> "Override | None":
        return self.filter(section=section, name=name).first()

    def lock(self) -> None:
        """Exclude other writers until the transaction ends.

        Each change is validated together with all others, so writers run one at a time.
        The lock also makes ids visible in ascending order. SQLite has one writer.
        """
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                table = connection.ops.quote_name(self.model._meta.db_table)
                cursor.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")

    def load_overlays(self) -> Overlays:
        """Return all overrides, and the version of the last change."""
        # Read first, so that the next poll detects changes stored meanwhile.
        version = OverrideVersion.objects.newest_id()
        return Overlays(version, tuple(row.overlay for row in self.order_by("id")))

    def store(self, overlay: Overlay, *, by: str) -> None:
        """Store an entry, or that its name is disabled, with the change."""
        body, is_tombstone = overlay.body or "", overlay.body is None
        action = OverrideAction.TOMBSTONED if is_tombstone else OverrideAction.SAVED
        change = OverrideVersion.objects.record(
            overlay.section, overlay.name, action, body, by=by
        )
        state: dict[str, Any] = {
            "body": body,
            "is_tombstone": is_tombstone,
            "version": change.pk,
            "changed_at": change.at,
            "changed_by": change.by,
        }
        self.update_or_create(
            section=overlay.section, name=overlay.name, defaults=state
        )


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

    objects = OverrideQuerySet.as_manager()

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

    @property
    def overlay(self) -> Overlay:
        """The override as the configuration applies it."""
        body = None if self.is_tombstone else self.body
        return Overlay(self.section, self.name, body)

    def remove(self, action: OverrideAction, *, by: str) -> None:
        """Delete the override, with the change."""
        self.delete()
        OverrideVersion.objects.record(self.section, self.name, action, by=by)


class OverrideVersionQuerySet(models.QuerySet["OverrideVersion"]):
    """The history of the overrides."""

    def of(self, section: str, name: str) -> Self:
        """Return the changes of one entry, newest first."""
        return self.filter(section=section, name=name).order_by("-id")

    def newest_id(self) -> int:
        """Return the id of the last change; 0 before the first."""
        return self.order_by("-id").values_list("id", flat=True).first() or 0

    def record(
        self, section: str, name: str, action: str, body: str = "", *, by: str
    ) -> "OverrideVersion":
        """Store a change; this process applies it on commit, the others soon after."""
        transaction.on_commit(live.apply_overrides, robust=True)
        transaction.on_commit(change_notices.publish, robust=True)
        return self.create(
            section=section,
            name=name,
            action=action,
            body=body,
            at=datetime.now(UTC),
            by=by[:512],
        )


class OverrideVersion(models.Model):
    """A change of an entry; processes compare the newest id to detect changes."""

    section = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    action = models.CharField(max_length=16, choices=OverrideAction)
    body = models.TextField(blank=True, default="")
    """The saved text."""
    at = models.DateTimeField()
    by = models.CharField(max_length=512)

    objects = OverrideVersionQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["section", "name", "id"], name="config_version_name")
        ]

    def __str__(self) -> str:
        return f"{self.section} {self.name} {self.action}"

    @property
    def description(self) -> str:
        """What was done by whom: `changed by studio: olga`."""
        verbs = {"saved": "changed", "tombstoned": "disabled", "removed": "deleted"}
        return f"{verbs.get(self.action, self.action)} by {self.by}"
