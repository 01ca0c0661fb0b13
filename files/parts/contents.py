"""What models receive of file parts: their content, in a form that they take."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import CoulisseError, Invalid
from core.ids import UserId
from core.messages import Content, Message
from files.config import MEBIBYTE
from files.errors import FileUnknown
from files.parts import documents, readers, references, texts
from files.parts.documents import Document
from files.parts.readers import AUDIO_FORMATS, PDF, Reader
from files.parts.references import Part
from files.storage import content
from files.types import StoredFile, parse_file_id

MAX_BYTES = 64 * MEBIBYTE
"""The bytes of files in one prompt. Providers accept less."""


async def resolve_files(
    user_id: UserId,
    messages: Sequence[Message],
    reader: Reader,
    *,
    new: Sequence[Message] = (),
) -> Sequence[Message]:
    """Return messages with the contents of their files.

    Raises for a file of the `new` messages that cannot be read: `FileUnsupported`,
    `FileUnreadable`, `StorageFailed`, `ContentMissing`. In other messages a note takes
    its place.
    """
    files = await references.find_files(user_id, messages)
    resolver = _Resolver(files, reader)
    new_messages = {id(message) for message in new}
    resolved = [
        await resolver.resolve(message, is_new=id(message) in new_messages)
        # Newest first: the oldest are left out if they are too large together.
        for message in reversed(messages)
    ]
    return resolved[::-1]


class _Resolver:
    """Reads the files of one prompt, each once."""

    def __init__(self, files: Mapping[uuid.UUID, StoredFile], reader: Reader) -> None:
        self._files = files
        self._reader = reader
        self._parts: dict[uuid.UUID, Part] = {}
        self._bytes = 0

    async def resolve(self, message: Message, *, is_new: bool) -> Message:
        parts = message.content
        if parts is None or isinstance(parts, str):
            return message
        if not any(map(references.is_file, parts)):
            return message
        resolved = [await self._resolve_part(part, is_new=is_new) for part in parts]
        return replace(message, content=_join_texts(resolved))

    async def _resolve_part(self, part: Part, *, is_new: bool) -> Part:
        if not references.is_file(part):
            return part
        file = await self._find(part)
        if file is None:
            if is_new:
                raise FileUnknown(param="messages")
            return references.deleted_note(part)
        if not is_new and file.content_type in AUDIO_FORMATS:
            # It has been answered already, and few models accept it.
            return references.note("audio")
        if file.key is None and not readers.is_readable(file.content_type):
            return part  # The provider may take it.
        try:
            return await self._read(file)
        except CoulisseError:
            if is_new:
                raise
            return references.note(f"file {references.name_of(part)} is left out")

    async def _find(self, part: Part) -> Document | None:
        data = documents.inline_data(part)
        if data is not None:
            return await content.run(
                Document.inline, data, part["file"].get("filename")
            )
        key = parse_file_id(references.file_id_of(part) or "")
        file = None if key is None else self._files.get(key)
        return None if file is None else Document.stored(file)

    async def _read(self, file: Document) -> Part:
        if file.key is None:
            return await self._to_part(file)
        if file.key not in self._parts:
            self._parts[file.key] = await self._to_part(file)
        return self._parts[file.key]

    async def _to_part(self, file: Document) -> Part:
        self._reader.check(file)
        kind = file.content_type
        if self._reader.needs_text(file):
            return _text_part(file, await texts.read_text(file))
        data = await self._read_base64(file)
        if kind in AUDIO_FORMATS:
            audio = {"data": data, "format": AUDIO_FORMATS[kind]}
            return {"type": "input_audio", "input_audio": audio}
        url = f"data:{kind};base64,{data}"
        if kind == PDF:
            document = {"filename": file.filename, "file_data": url}
            return {"type": "file", "file": document}
        return {"type": "image_url", "image_url": {"url": url}}

    async def _read_base64(self, file: Document) -> str:
        self._bytes += file.size
        if self._bytes > MAX_BYTES:
            raise Invalid(
                "the files of this request are larger than "
                f"{MAX_BYTES // MEBIBYTE} MiB together: send fewer or smaller ones",
                param="messages",
                code="files_too_large",
            )
        data = await content.run(file.read)
        return base64.b64encode(data).decode()


def _text_part(file: Document, text: str) -> Part:
    name = file.filename.replace('"', "'")
    cut = "\n(the rest is left out)" if len(text) >= texts.MAX_CHARACTERS else ""
    return {"type": "text", "text": f'<file name="{name}">\n{text}{cut}\n</file>'}


def _join_texts(parts: Sequence[dict[str, Any]]) -> Content:
    """Return parts that are all text as one text, which every provider accepts."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts
