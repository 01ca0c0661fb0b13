"""The texts of files, for models that read nothing else."""

import asyncio
import codecs
import subprocess
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from shutil import copyfileobj
from typing import IO

from core.errors import Invalid
from core.token_estimates import BYTES_PER_TOKEN, MAX_FILE_TEXT_TOKENS
from database import database_executor
from files import file_store
from files.parts import pdf_worker, readers
from files.parts.documents import Document
from files.storage import backends, content

MAX_CHARACTERS = MAX_FILE_TEXT_TOKENS * BYTES_PER_TOKEN
"""Characters of a file that a model receives."""
MAX_PAGES = 500
MAX_SECONDS = 30.0
MAX_WAIT_SECONDS = 90.0
"""Time limit with the wait for other PDFs."""
REASONS = {
    "encrypted": "it needs a password: send it without one",
    "damaged": "it is damaged, or too complex: send another, or its text",
}

# Each call waits for a process.
_executor = ThreadPoolExecutor(2, "pdf")


class FileUnreadable(Invalid):
    """The text of this file cannot be read."""

    code = "file_unreadable"


async def read_text(file: Document) -> str:
    """Return the first characters of a text or a PDF; raises `FileUnreadable`."""
    if readers.is_text(file.content_type):
        return _decode(await content.run(file.read, 4 * MAX_CHARACTERS))
    text = await (_extract(file) if file.key is None else _stored_text(file, file.key))
    if not text.strip():
        raise FileUnreadable(
            f"'{file.filename}' contains no text: if it is scanned, send its pages as "
            "images"
        )
    return text


async def _stored_text(file: Document, key: uuid.UUID) -> str:
    """Return the text of a stored PDF, which is extracted once."""
    text = await database_executor.run(file_store.find_text, key)
    if text is None:
        text = await _extract(file)
        await database_executor.run_to_end(file_store.save_text, key, text)
    return text


def _decode(data: bytes) -> str:
    """Return text in UTF-8 or UTF-16, or else in Windows' Western code page."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")[:MAX_CHARACTERS]
    try:
        # The cut may be within a character.
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        return decoder.decode(data)[:MAX_CHARACTERS]
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")[:MAX_CHARACTERS]


async def _extract(file: Document) -> str:
    opened = await content.run(file.open)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            output = await loop.run_in_executor(_executor, _run_worker, opened)
    except TimeoutError:
        output = b""
    state, _, text = output.decode("utf-8", "replace").partition("\n")
    if state != "ok":
        reason = REASONS.get(state, REASONS["damaged"])
        raise FileUnreadable(f"the text of '{file.filename}' cannot be read: {reason}")
    return text.replace("\0", "")


def _run_worker(pdf: IO[bytes]) -> bytes:
    """Return what the process says; nothing if it was killed or takes too long."""
    command = [sys.executable, "-P", pdf_worker.__file__]
    limits = [str(MAX_PAGES), str(MAX_CHARACTERS)]
    with pdf, tempfile.TemporaryFile(dir=backends.upload_folder()) as file:
        # S3's file has no descriptor of its own.
        copyfileobj(pdf, file)
        file.seek(0)
        try:
            return subprocess.run(
                [*command, *limits],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=MAX_SECONDS,
                check=False,
            ).stdout
        except subprocess.TimeoutExpired:
            return b""
