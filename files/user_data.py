"""Files of users, for export and erasure."""

from datetime import datetime

from pydantic import Field

from database.user_data import Export, ExportedRow, UserTable
from files.models import File


class ExportedFile(ExportedRow):
    """A file, without its content, which `/v1/files/{id}/content` returns."""

    id: str = Field(validation_alias="file_id")
    filename: str
    purpose: str
    content_type: str
    bytes: int = Field(validation_alias="size")
    sha256: str
    created_at: datetime
    expires_at: datetime | None


EXPORT = Export("files", ExportedFile, File.objects.of_user)
TABLES = (UserTable("files", File, erased=65, export=EXPORT),)
