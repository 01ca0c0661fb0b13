"""Reads and writes the table of files, on the database threads."""

import uuid
from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import transaction

from core.ids import UserId
from files.config import StorageConfig
from files.models import Cursor, File, UnusedContent
from files.storage import content
from files.types import NewFile, StoredFile


def find_file(user_id: UserId, key: uuid.UUID) -> StoredFile | None:
    """Return a user's file; None for an unknown one, and another user's."""
    return find_files(user_id, [key]).get(key)


def find_files(
    user_id: UserId, keys: Collection[uuid.UUID]
) -> dict[uuid.UUID, StoredFile]:
    """Return those of the files that the user has, by key."""
    rows = File.objects.usable_by(user_id).filter(pk__in=keys)
    return {row.pk: row.value for row in rows}


def find_text(key: uuid.UUID) -> str | None:
    """Return the text of a PDF; None if it is not extracted yet."""
    return File.objects.filter(pk=key).values_list("text", flat=True).first()


def save_text(key: uuid.UUID, text: str) -> None:
    """Store the text of a PDF."""
    File.objects.filter(pk=key).update(text=text)


def find_cursor(key: uuid.UUID, user_id: UserId) -> Cursor | None:
    """Return the position of a user's file in lists."""
    rows = File.objects.filter(user_id=user_id, pk=key)
    return rows.values_list("created_at", "id").first()


def read_page(
    user_id: UserId,
    *,
    purpose: str | None,
    after: Cursor | None,
    is_descending: bool,
    limit: int,
) -> tuple[list[StoredFile], bool]:
    """Return a user's files in order of creation, and whether there are more."""
    rows = File.objects.usable_by(user_id)
    if purpose is not None:
        rows = rows.filter(purpose=purpose)
    page = list(rows.after(after, is_descending=is_descending)[: limit + 1])
    return [row.value for row in page[:limit]], len(page) > limit


def renew_file(user_id: UserId, new: NewFile) -> StoredFile | None:
    """Return the user's file with the same content, under its new name and purpose."""
    row = File.objects.renew(user_id, new)
    return None if row is None else row.value


def announce_content(key: uuid.UUID) -> None:
    """Record that bytes are about to be stored, which belong to no file yet."""
    UnusedContent.objects.create(pk=key, since=datetime.now(UTC))


def add_file(key: uuid.UUID, user_id: UserId, new: NewFile) -> StoredFile:
    """Store a file whose bytes are stored."""
    return File.objects.add(key, user_id, new).value


def evict_files(user_id: UserId, config: StorageConfig, keep: uuid.UUID) -> int:
    """Delete the oldest files beyond the limits, except one; return how many."""
    return File.objects.evict(user_id, config, keep)


def delete_file(user_id: UserId, key: uuid.UUID) -> None:
    """Delete a user's file, and then its bytes."""
    File.objects.filter(user_id=user_id, pk=key).delete()


def on_file_deleted(instance: File, **_: Any) -> None:
    """Delete a deleted file's bytes once its deletion is committed."""
    UnusedContent.objects.get_or_create(
        pk=instance.pk, defaults={"since": datetime.now(UTC)}
    )
    transaction.on_commit(partial(content.delete_later, instance.pk))


def delete_unused(now: datetime) -> int:
    """Delete bytes that belong to no file; return how many.

    If the storage fails, they stay for the next time.
    """
    unused = UnusedContent.objects.abandoned(now)
    for row in unused:
        content.delete(row.pk)
        row.delete()
    return len(unused)
