"""The bytes of files: saved, read and deleted, on threads of their own.

A disk or S3 may take its time; the database executor must not wait for it.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO, Any, ParamSpec, TypeVar

from django.core.files.base import File as Content

from core.errors import CoulisseError
from files.errors import ContentMissing, StorageFailed
from files.storage import backends
from files.types import StoredFile

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
CHUNK_BYTES = 256 * 1024
ABANDONED_UPLOAD_SECONDS = 24 * 3600
"""The age at which a received upload is one of a process that was killed."""

logger = logging.getLogger(__name__)

_executor = ThreadPoolExecutor(THREADS, "files")


async def run(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that reads or writes bytes on a thread; return its result."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_executor, partial(function, *args, **kwargs))


def _call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the storage; raises `ContentMissing` and `StorageFailed`."""
    try:
        return function(*args, **kwargs)
    except CoulisseError:
        raise
    except FileNotFoundError as exc:
        raise ContentMissing from exc
    except Exception as exc:
        # The client of S3 has a hierarchy of its own, which is not always installed.
        raise StorageFailed(detail=f"{type(exc).__name__}: {exc}") from exc


def save(key: uuid.UUID, content: "Content[bytes]") -> None:
    """Store the bytes of a file; its name must be unused."""
    _call(backends.current_storage().save, key.hex, content)


def exists(key: uuid.UUID) -> bool:
    return _call(backends.current_storage().exists, key.hex)


def open_content(file: StoredFile) -> IO[bytes]:
    """Return a file's bytes for reading; raises `ContentMissing` if any are missing."""
    content: IO[bytes] = _call(_open, file.key.hex)
    if _call(getattr, content, "size") != file.size:
        content.close()
        raise ContentMissing(detail=f"'{file.key.hex}' has another size than its row")
    return content


def _open(name: str) -> Any:
    content = backends.current_storage().open(name)
    content.seek(0)  # S3 fetches it now.
    return content


def read(content: IO[bytes], max_bytes: int = -1) -> bytes:
    """Return the bytes of an open file, or the first of them."""
    return _call(content.read, max_bytes)


async def stream(content: IO[bytes]) -> AsyncGenerator[bytes]:
    """Yield bytes in chunks, then close."""
    try:
        while chunk := await run(content.read, CHUNK_BYTES):
            yield chunk
    finally:
        content.close()


def delete(key: uuid.UUID) -> None:
    """Delete the bytes of a file, if there are any."""
    _call(backends.current_storage().delete, key.hex)


def delete_later(key: uuid.UUID) -> None:
    """Delete the bytes of a file on a thread; a failure is left to the sweep."""
    _executor.submit(_delete_quietly, key)


def _delete_quietly(key: uuid.UUID) -> None:
    try:
        delete(key)
    except CoulisseError as exc:
        logger.warning("cannot delete the content of a file yet: %s", exc)


def delete_old_uploads() -> None:
    """Delete received uploads of processes that were killed."""
    oldest = time.time() - ABANDONED_UPLOAD_SECONDS
    for path in backends.upload_folder().iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
