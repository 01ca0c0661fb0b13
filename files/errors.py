"""Errors of files."""

from core.errors import Invalid, NotFound, Unavailable


class FileUnknown(NotFound):
    """There is no such file, or it was deleted or has expired."""

    code = "file_not_found"


class FileTooLarge(Invalid):
    """The file is larger than this server accepts."""

    code = "file_too_large"
    detail = "raise storage.max_file_bytes or storage.max_user_bytes"


class FileTypeRefused(Invalid):
    """This server does not accept files of this type."""

    code = "unsupported_file_type"
    detail = "add the type to storage.allowed_types"


class StorageFailed(Unavailable):
    """The storage of files is not available. Try again in a moment."""

    code = "storage_unavailable"
    retry_after_seconds = 5


class ContentMissing(Unavailable):
    """The content of this file is missing from the storage: upload it again."""

    code = "file_content_missing"
