"""Exports in ZIP archives."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from imports import input_files
from imports.chats.json_stream import MAX_FILE_BYTES
from imports.errors import SourceUnreadable

MAX_MEMBERS = 200_000
MAX_RATIO = 200
"""Bytes for each compressed one; conversations have about ten, and a thousand is what
the method reaches at most."""


def is_archive(path: Path) -> bool:
    """Return whether a file is a ZIP archive, whatever its name."""
    with input_files.open_file(path) as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def open_members(
    path: Path, name: re.Pattern[str]
) -> Iterator[Iterator[tuple[str, BinaryIO]]]:
    """Open the files of an archive whose names match, in the order of names.

    Nothing is unpacked to the disk. Raises `SourceUnreadable` for an archive that is
    damaged, encrypted, or suspicious: with a path that leads out of it, or with far
    more data than its size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _find_members(path, archive, name)
            yield _open_each(path, archive, members)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        OSError,
    ) as exc:
        raise SourceUnreadable(
            f"{path.name} is a damaged archive ({exc}); download it again"
        ) from exc


def _find_members(
    path: Path, archive: zipfile.ZipFile, name: re.Pattern[str]
) -> list[zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise SourceUnreadable(f"{path.name} has more than {MAX_MEMBERS:,} files")
    found = []
    for info in infos:
        inside = PurePosixPath(info.filename.replace("\\", "/"))
        if inside.is_absolute() or ".." in inside.parts:
            raise SourceUnreadable(
                f"{path.name} has a file with the path '{info.filename[:200]}', which "
                "leads out of the archive; such an archive is not an export"
            )
        if name.fullmatch(inside.name):
            found.append(info)
    for info in found:
        _check_member(path, info)
    return sorted(found, key=lambda info: info.filename)


def _check_member(path: Path, info: zipfile.ZipInfo) -> None:
    problem = ""
    if info.flag_bits & 1:
        problem = "is encrypted; decrypt the archive first"
    elif info.file_size > MAX_FILE_BYTES:
        problem = f"is larger than {MAX_FILE_BYTES:,} bytes"
    elif info.file_size > MAX_RATIO * max(info.compress_size, 1):
        problem = (
            f"is {info.file_size // max(info.compress_size, 1):,} times as large as "
            "in the archive, as in a ZIP bomb; unpack it, if you trust it, and import "
            "the JSON file"
        )
    if problem:
        raise SourceUnreadable(f"{info.filename[:200]} in {path.name} {problem}")


def _open_each(
    path: Path, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[tuple[str, BinaryIO]]:
    for info in members:
        with archive.open(info) as file:
            yield f"{info.filename} in {path.name}", cast(BinaryIO, file)
