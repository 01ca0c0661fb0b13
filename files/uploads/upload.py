"""Receives an upload: reads the form, checks it, stores bytes and row."""

from typing import NamedTuple

from pydantic import ValidationError

from api_base import validation_messages
from config import live
from core import ids
from core.errors import Invalid
from core.ids import UserId
from database import database_executor
from files import file_store
from files.config import STORAGE, StorageConfig
from files.errors import FileTypeRefused
from files.schemas import UploadForm
from files.storage import content
from files.types import NewFile, StoredFile
from files.uploads import content_types, form
from files.uploads.form import FILE_FIELD, Body, FormReader, ReceivedFile


class Upload(NamedTuple):
    """An upload that was read and checked; its bytes are still a temporary file."""

    received: ReceivedFile
    new: NewFile


async def receive(body: Body, content_type: str, user_id: UserId) -> StoredFile:
    """Store an upload, and return its file.

    The same bytes a second time are the same file, with its new name and purpose.
    Raises `FormInvalid`, `Invalid`, `FileTooLarge`, `FileTypeRefused`, `StorageFailed`.
    """
    config = live.current().get(STORAGE)
    upload = await content.run(read_upload, body, content_type, config)
    try:
        file = await _renew(user_id, upload) or await _add(user_id, upload)
    finally:
        await content.run(upload.received.close)
    await database_executor.run_to_end(
        file_store.evict_files, user_id, config, file.key
    )
    return file


async def _renew(user_id: UserId, upload: Upload) -> StoredFile | None:
    """Return the user's file with the same bytes; stores lost ones again."""
    file = await database_executor.run_to_end(
        file_store.renew_file, user_id, upload.new
    )
    if file is not None and not await content.run(content.exists, file.key):
        await content.run(content.save, file.key, upload.received)
    return file


async def _add(user_id: UserId, upload: Upload) -> StoredFile:
    key = ids.new_id()
    await database_executor.run_to_end(file_store.announce_content, key)
    await content.run(content.save, key, upload.received)
    return await database_executor.run_to_end(
        file_store.add_file, key, user_id, upload.new
    )


def read_upload(body: Body, content_type: str, config: StorageConfig) -> Upload:
    """Read and check a form; the caller closes its file."""
    reader = form.read_form(body, content_type, config.largest_file)
    try:
        return _check_form(reader, config)
    except BaseException:
        reader.close()
        raise


def _check_form(reader: FormReader, config: StorageConfig) -> Upload:
    received = reader.file
    if received is None:
        raise Invalid(
            "the form has no part 'file': add it", param=FILE_FIELD, code="missing_file"
        )
    fields = _parse_fields(reader.fields)
    if not received.length:
        raise Invalid(
            "the file is empty: send one with content",
            param=FILE_FIELD,
            code="empty_file",
        )
    name = received.name or form.DEFAULT_NAME
    new = NewFile(
        filename=name,
        purpose=fields.purpose,
        content_type=received.content_type,
        size=received.length,
        sha256=received.sha256,
        lifetime=fields.expires_after.lifetime if fields.expires_after else None,
    )
    _check_type(new, config)
    return Upload(received, new)


def _parse_fields(fields: dict[str, str]) -> UploadForm:
    try:
        return UploadForm.model_validate(UploadForm.of_fields(fields))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise Invalid(
            validation_messages.describe_errors(exc), param=str(first["loc"][0])[:100]
        ) from exc


def _check_type(new: NewFile, config: StorageConfig) -> None:
    """Refuse types that are not allowed, and content of another type than its name."""
    if not config.allows_type(new.content_type):
        raise FileTypeRefused(
            f"files of type {new.content_type} are not accepted", param=FILE_FIELD
        )
    expected = content_types.expected_type(new.filename)
    if expected is not None and expected != new.content_type:
        raise Invalid(
            f"the name promises {expected}, but the content is {new.content_type}: "
            "change the name, or send the other file",
            param=FILE_FIELD,
            code="file_type_mismatch",
        )
