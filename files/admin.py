"""Files in the studio."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from pydantic import BaseModel, Field

from access.users.filters import UserFilter
from access.users.model_admin import UserModelAdmin
from admin_base.actions import Outcome, action
from admin_base.columns import column
from admin_base.filters import ExactFilter, TimeFilter
from files.models import File
from files.types import ID_PREFIX


class StudioFile(BaseModel):
    """A file of a user, without its content."""

    id: UUID
    file_id: str = Field(description="The id that clients use.")
    user_id: UUID
    filename: str
    content_type: str
    size: int = Field(description="In bytes.")
    purpose: str
    sha256: str
    created_at: datetime
    expires_at: datetime | None


class DeletedStudioFile(BaseModel):
    """The response to a deletion."""

    id: UUID
    deleted: bool = True


@admin.register(File)
class FileAdmin(UserModelAdmin):
    """Files of users."""

    path = "files"
    icon = "attach_file"
    list_display = [
        "filename",
        "user",
        "content_type",
        "size_shown",
        "purpose",
        "created_at",
    ]
    column_classes = {
        "filename": "long",
        "content_type": "is-wide",
        "purpose": "is-wide",
    }
    list_filter = [
        UserFilter,
        ExactFilter.of("content_type", title="Type"),
        "purpose",
        TimeFilter.of("created_at"),
    ]
    ordering = ["-created_at"]
    fieldsets = [(None, {"fields": ["file_id", *list_display, "sha256", "expires_at"]})]
    schema = StudioFile
    delete_action = "remove"
    delete_response = DeletedStudioFile
    actions = row_buttons = ["remove"]
    empty_text = "Files that clients upload to /v1/files appear here."

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("text")

    def clean_search(self, text: str) -> str:
        return text.removeprefix(ID_PREFIX)

    def row_title(self, row: File) -> str:
        return row.filename

    @column("Size", css="number")
    def size_shown(self, row: File) -> str:
        return filesizeformat(row.size)

    @action(
        "Delete",
        audit="file.delete",
        permission="delete",
        confirm="Conversations then have a note in its place. You cannot undo this.",
        is_dangerous=True,
        response=DeletedStudioFile,
    )
    def remove(self, request: HttpRequest, row: File) -> Outcome:
        """Delete a file; its bytes follow."""
        count, _ = File.objects.filter(pk=row.pk).delete()
        return Outcome(
            bool(count),
            {"type": row.content_type, "bytes": row.size},
            f"File '{row.filename}' deleted",
            target=row.file_id,
            data=DeletedStudioFile(id=row.pk).model_dump(mode="json"),
        )
