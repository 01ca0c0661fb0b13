"""What `/v1/files` takes and returns, in OpenAI's shapes."""

from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from access.users.list_queries import OrderedListQuery
from api_base.pagination import ListPage
from files.types import StoredFile

MAX_PAGE_SIZE = 10_000
PurposeName = Literal[
    "assistants", "batch", "evals", "fine-tune", "user_data", "vision"
]


class ExpiresAfter(BaseModel):
    """When a file expires."""

    model_config = ConfigDict(extra="forbid")

    anchor: Literal["created_at"]
    seconds: int = Field(ge=3600, le=2_592_000, description="One hour to 30 days.")

    @property
    def lifetime(self) -> timedelta:
        return timedelta(seconds=self.seconds)


class UploadForm(BaseModel):
    """The fields of an upload besides the file."""

    model_config = ConfigDict(extra="forbid")

    purpose: PurposeName
    expires_after: ExpiresAfter | None = None

    @classmethod
    def of_fields(cls, fields: dict[str, str]) -> dict[str, Any]:
        """Return the fields of a form, in which `a[b]` is `b` of `a`."""
        nested: dict[str, Any] = {}
        for name, value in fields.items():
            outer, bracket, inner = name.partition("[")
            if bracket and inner.endswith("]"):
                group = nested.setdefault(outer, {})
                if isinstance(group, dict):
                    group[inner[:-1]] = value
            else:
                nested[name] = value
        return nested


class FilesQuery(OrderedListQuery):
    """Query of `GET /v1/files`."""

    purpose: str | None = Field(
        default=None, max_length=64, description="Only files with this purpose."
    )
    limit: int = Field(default=MAX_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)


class FileObject(BaseModel):
    """A file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None = Field(default=None, exclude_if=lambda value: value is None)
    filename: str
    purpose: PurposeName
    status: Literal["processed"] = "processed"
    content_type: str = Field(description="Found in the content.")

    @classmethod
    def of(cls, file: StoredFile) -> Self:
        """Return the object of a file."""
        expires_at = file.expires_at
        return cls(
            id=file.file_id,
            bytes=file.size,
            created_at=int(file.created_at.timestamp()),
            expires_at=None if expires_at is None else int(expires_at.timestamp()),
            filename=file.filename,
            purpose=file.purpose,
            content_type=file.content_type,
        )


class FileList(ListPage[FileObject]):
    """A page of files."""


class DeletedFile(BaseModel):
    """The response to a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


UPLOAD_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["file", "purpose"],
                "properties": {
                    "file": {"type": "string", "format": "binary"},
                    "purpose": UploadForm.model_json_schema()["properties"]["purpose"],
                    "expires_after[anchor]": {"type": "string"},
                    "expires_after[seconds]": {"type": "integer"},
                },
            }
        }
    },
}
"""The OpenAPI description of an upload, which ninja does not read."""
