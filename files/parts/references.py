"""File parts: found in messages; those by id are checked and described.

`{"type": "file", "file": {"file_id": …}}` gets the name, type and size of its file, for
those who see the transcript and for estimates.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import Invalid
from core.ids import UserId
from core.messages import Message
from core.text.sanitization import escape_and_truncate
from database import database_executor
from files import file_store
from files.errors import FileUnknown
from files.parts import documents
from files.parts.readers import Reader
from files.types import StoredFile, parse_file_id

MAX_FILES = 50
"""File parts by id in the new messages of a request."""

Part = dict[str, Any]


async def describe_files(
    user_id: UserId, messages: Sequence[Message], reader: Reader
) -> Sequence[Message]:
    """Return messages whose file parts by id are described.

    Raises `FileUnknown` for a file that the user does not have, `FileUnsupported` for
    one that the reader cannot read, and `Invalid` for too many, in the messages after
    the last reply. Earlier ones, which the client only repeats, keep the ids of
    deleted files.
    """
    files = await find_files(user_id, messages)
    first_new = _first_new(messages)
    if sum(1 for _ in file_ids(messages[first_new:])) > MAX_FILES:
        raise Invalid(
            f"the new messages refer to more than {MAX_FILES} files: send fewer",
            param="messages",
        )
    described = [
        _describe_message(message, files, position, is_new=position >= first_new)
        for position, message in enumerate(messages)
    ]
    new_ids = set(file_ids(messages[first_new:]))
    for file in files.values():
        if file.file_id in new_ids:
            reader.check(file)
    return described


async def find_files(
    user_id: UserId, messages: Iterable[Message]
) -> Mapping[uuid.UUID, StoredFile]:
    """Return the files that messages refer to, by key, as far as the user has them."""
    keys = {key for text in file_ids(messages) if (key := parse_file_id(text))}
    if not keys:
        return {}
    return await database_executor.run(file_store.find_files, user_id, keys)


def file_ids(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the ids of files in messages."""
    for message in messages:
        if message.content is not None and not isinstance(message.content, str):
            yield from filter(None, map(file_id_of, message.content))


def file_id_of(part: Part) -> str | None:
    """Return the id of a part's file; None for any other part."""
    file = part.get("file") if part.get("type") == "file" else None
    found = file.get("file_id") if isinstance(file, dict) else None
    return found if isinstance(found, str) else None


def is_file(part: Part) -> bool:
    """Return whether a part names a stored file, or contains a file as base64."""
    return file_id_of(part) is not None or documents.inline_data(part) is not None


def has_files(messages: Iterable[Message]) -> bool:
    for message in messages:
        # Nearly every content is a text.
        if message.content is None or isinstance(message.content, str):
            continue
        if any(part.get("type") == "file" for part in message.content):
            return True
    return False


def _first_new(messages: Sequence[Message]) -> int:
    replies = [n for n, each in enumerate(messages) if each.role == "assistant"]
    return replies[-1] + 1 if replies else 0


def _describe_message(
    message: Message,
    files: Mapping[uuid.UUID, StoredFile],
    position: int,
    *,
    is_new: bool,
) -> Message:
    if message.content is None or isinstance(message.content, str):
        return message
    content = []
    for number, part in enumerate(message.content):
        file_id = file_id_of(part)
        key = None if file_id is None else parse_file_id(file_id)
        file = None if key is None else files.get(key)
        if file is None and file_id is not None and is_new:
            raise FileUnknown(
                f"No such File object: {escape_and_truncate(file_id)}",
                param=f"messages[{position}].content[{number}].file.file_id",
            )
        content.append(part if file is None else describe_part(part, file))
    return replace(message, content=content)


def describe_part(part: Part, file: StoredFile) -> Part:
    """Return a file part with the name, type and size of its file."""
    described = {
        "file_id": file.file_id,
        "filename": file.filename,
        "content_type": file.content_type,
        "bytes": file.size,
    }
    return {**part, "file": described}


def deleted_note(part: Part) -> Part:
    """Return the note in place of a deleted file."""
    return note(f"file {name_of(part)} was deleted")


def note(text: str) -> Part:
    return {"type": "text", "text": f"({text})"}


def name_of(part: Part) -> str:
    """Return the name of a part's file, or its id."""
    file = part["file"]
    name = file.get("filename") or file.get("file_id") or documents.DEFAULT_NAME
    return escape_and_truncate(name)
