"""The table of files, and of stored bytes that belong to none."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Self

from django.db import IntegrityError, models, transaction
from django.db.models import Q, Sum

from config import live
from core.ids import UserId, new_id
from database.keyset import later_rows
from files.config import STORAGE, StorageConfig
from files.types import NewFile, StoredFile, format_file_id

Cursor = tuple[datetime, uuid.UUID]

EVICTION_BATCH = 500
ABANDONED_AFTER = timedelta(hours=1)
"""The age at which bytes without a file are those of an upload that broke off."""


class FileQuerySet(models.QuerySet["File"]):
    """Files of users."""

    def of_user(self, user_id: UserId) -> Self:
        """Return a user's files, without the texts of PDFs."""
        return self.filter(user_id=user_id).defer("text")

    def usable_by(self, user_id: UserId) -> Self:
        """Return those that have not expired."""
        is_valid = Q(expires_at=None) | Q(expires_at__gt=datetime.now(UTC))
        return self.of_user(user_id).filter(is_valid)

    def after(self, cursor: Cursor | None, *, is_descending: bool) -> Self:
        """Return the files after a position, in order of creation."""
        sign = "-" if is_descending else ""
        later = later_rows("created_at", cursor, is_descending=is_descending)
        return self.filter(later).order_by(f"{sign}created_at", f"{sign}id")

    def renew(self, user_id: UserId, new: NewFile) -> "File | None":
        """Return the user's file with the same content, under its new name and purpose.

        It expires at the later of both times. None if there is no such file.
        """
        with transaction.atomic():
            own = self.of_user(user_id).filter(sha256=new.sha256)
            row = own.select_for_update().first()
            if row is None:
                return None
            now = datetime.now(UTC)
            row.filename, row.purpose = new.filename, new.purpose
            if row.expires_at is not None:
                expires_at = new.expires_at(now)
                row.expires_at = expires_at and max(row.expires_at, expires_at)
            row.created_at = now
            row.save(update_fields=["filename", "purpose", "expires_at", "created_at"])
        return row

    def add(self, file_id: uuid.UUID, user_id: UserId, new: NewFile) -> "File":
        """Store a file whose bytes are stored.

        Returns the user's file with the same content if another request has just
        stored it; the bytes of this one are then deleted by the sweep.
        """
        now = datetime.now(UTC)
        try:
            with transaction.atomic():
                row = self.create(
                    pk=file_id,
                    user_id=user_id,
                    filename=new.filename,
                    purpose=new.purpose,
                    content_type=new.content_type,
                    size=new.size,
                    sha256=new.sha256,
                    created_at=now,
                    expires_at=new.expires_at(now),
                )
                UnusedContent.objects.filter(pk=file_id).delete()
        except IntegrityError:
            other = self.renew(user_id, new)
            if other is None:
                raise
            return other
        return row

    def evict(self, user_id: UserId, storage: StorageConfig, keep: uuid.UUID) -> int:
        """Delete the oldest files beyond the limits, except one; return how many.

        Runs after the transaction that adds the file: of concurrent uploads, the last
        one sees the files of all.
        """
        count = 0
        for rows, limit in (
            (self.filter(user_id=user_id), storage.max_user_bytes),
            (self.all(), storage.max_total_bytes),
        ):
            if limit is not None:
                count += rows._evict_to(limit, keep)
        return count

    def _evict_to(self, limit: int, keep: uuid.UUID) -> int:
        excess = (self.aggregate(total=Sum("size"))["total"] or 0) - limit
        if excess <= 0:
            return 0
        evicted = list(self._oldest_with(excess, keep))
        for start in range(0, len(evicted), EVICTION_BATCH):
            batch = evicted[start : start + EVICTION_BATCH]
            File.objects.filter(pk__in=batch).delete()
        return len(evicted)

    def _oldest_with(self, excess: int, keep: uuid.UUID) -> Iterator[uuid.UUID]:
        """Yield the oldest files that together have so many bytes."""
        rows = self.exclude(pk=keep).order_by("created_at", "id")
        for pk, size in rows.values_list("pk", "size").iterator(EVICTION_BATCH):
            if excess <= 0:
                return
            excess -= size
            yield pk

    def expired(self, now: datetime) -> Self:
        """Return the files to delete: expired ones, and those past the retention."""
        days = live.current().get(STORAGE).retention_days
        is_expired = Q(expires_at__lte=now)
        if days is not None:
            is_expired |= Q(created_at__lte=now - timedelta(days=days))
        return self.filter(is_expired).order_by("created_at")


class File(models.Model):
    """A file that a user uploaded. The storage has its bytes, under its id."""

    class Purpose(models.TextChoices):
        ASSISTANTS = "assistants"
        BATCH = "batch"
        EVALS = "evals"
        FINE_TUNE = "fine-tune"
        USER_DATA = "user_data"
        VISION = "vision"

    id = models.UUIDField(primary_key=True, default=new_id)
    user_id = models.UUIDField()
    filename = models.CharField(max_length=255)
    purpose = models.CharField(max_length=16, choices=Purpose)
    content_type = models.CharField(max_length=100)
    size = models.PositiveBigIntegerField()
    """In bytes."""
    sha256 = models.CharField(max_length=64)
    text = models.TextField(null=True)  # noqa: DJ001 (null: not extracted yet)
    """The text of a PDF, once a model needed it."""
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    objects = FileQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "sha256"], name="files_file_content"
            )
        ]
        indexes = [
            models.Index(
                fields=["user_id", "-created_at", "-id"], name="files_file_of_user"
            ),
            models.Index(fields=["-created_at", "-id"], name="files_file_newest"),
            models.Index(
                fields=["expires_at"],
                name="files_file_expires",
                condition=Q(expires_at__isnull=False),
            ),
        ]

    @property
    def file_id(self) -> str:
        """The id for clients."""
        return format_file_id(self.pk)

    @property
    def value(self) -> StoredFile:
        """The row as a value."""
        return StoredFile(
            self.pk,
            self.filename,
            self.purpose,
            self.content_type,
            self.size,
            self.created_at,
            self.expires_at,
        )

    def __str__(self) -> str:
        return self.filename


class UnusedContentQuerySet(models.QuerySet["UnusedContent"]):
    """Bytes without a file."""

    def abandoned(self, now: datetime) -> Self:
        """Return those to delete, oldest first."""
        return self.filter(since__lte=now - ABANDONED_AFTER).order_by("since")


class UnusedContent(models.Model):
    """Bytes in the storage that belong to no file yet, or no longer.

    Written before the bytes are, and with the deletion of a file: so a crash leaves no
    bytes that nothing knows of.
    """

    id = models.UUIDField(primary_key=True)
    """Their name in the storage."""
    since = models.DateTimeField()

    objects = UnusedContentQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        verbose_name_plural = "unused contents"
        indexes = [models.Index(fields=["since"], name="files_unused_since")]

    def __str__(self) -> str:
        return self.pk.hex
