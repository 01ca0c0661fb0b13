"""Uploaded files. In the Rust version they have no owner: the operator names one."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.core.files.base import File as Content
from django.db import transaction

from core.ids import UserId
from files.config import StorageConfig
from files.models import File, UnusedContent
from files.storage import content
from files.types import parse_file_id
from files.uploads import form
from files.uploads.content_types import TypeDetector
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    Table,
    read_text,
    read_time,
    read_uuid,
)

FILES = Table(
    "storage_files",
    "files",
    ("id", "filename", "purpose", "storage_key", "sha256", "created_at"),
)


@dataclass(frozen=True)
class FileImport:
    """Copies the files in a directory to our storage; clients keep their ids."""

    source: SourceDatabase
    directory: Path
    user_id: UserId
    config: StorageConfig

    def run(self) -> None:
        for rows in self.source.batches(FILES):
            list(self.source.read_rows(FILES, rows, self._import))

    def _import(self, row: Row) -> None:
        file, report = self._read_row(row), self.source.report
        if File.objects.filter(pk=file.pk).exists():
            report.count(FILES.kind, existing=1)
            return
        same = File.objects.filter(user_id=self.user_id, sha256=file.sha256).first()
        if same is not None:
            raise RowDamaged(f"the user has the same content as {same.file_id}")
        # A UUID, so that it names nothing outside of the directory.
        path = self.directory / str(read_uuid(row, "storage_key"))
        self._check_content(path, file)
        if not report.is_dry_run:
            _store(path, file)
        report.count(FILES.kind, written=1)

    def _read_row(self, row: Row) -> File:
        key = parse_file_id(read_text(row, "id"))
        if key is None:
            raise RowDamaged("'id' is not that of a file")
        purpose = read_text(row, "purpose")
        return File(
            pk=key,
            user_id=self.user_id,
            filename=form.clean_filename(read_text(row, "filename")),
            purpose=purpose
            if purpose in File.Purpose.values
            else File.Purpose.USER_DATA,
            sha256=read_text(row, "sha256"),
            created_at=read_time(row, "created_at"),
        )

    def _check_content(self, path: Path, file: File) -> None:
        """Set the size and the type of a file; raises `RowDamaged`."""
        digest, detector = hashlib.sha256(), TypeDetector()
        try:
            with path.open("rb") as source:
                while chunk := source.read(content.CHUNK_BYTES):
                    digest.update(chunk)
                    detector.feed(chunk)
                file.size = source.tell()
        except FileNotFoundError:
            raise RowDamaged(f"its content is not in {self.directory}") from None
        file.content_type = detector.content_type(file.filename)
        if digest.hexdigest() != file.sha256:
            raise RowDamaged("its content differs from its SHA-256")
        limit = self.config.largest_file
        if limit is not None and file.size > limit:
            raise RowDamaged(f"it is larger than {limit:,} bytes (storage)")
        if not self.config.allows_type(file.content_type):
            raise RowDamaged(f"files of type {file.content_type} are not accepted")


def _store(path: Path, file: File) -> None:
    """Copy the content, then store the row, as uploads do."""
    now = datetime.now(UTC)
    UnusedContent.objects.get_or_create(pk=file.pk, defaults={"since": now})
    if not content.exists(file.pk):
        with path.open("rb") as source:
            content.save(file.pk, Content(source))
    with transaction.atomic():
        file.save(force_insert=True)
        UnusedContent.objects.filter(pk=file.pk).delete()
