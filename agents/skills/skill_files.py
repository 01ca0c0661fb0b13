"""Listing and reading of files without ever leaving a directory.

Symbolic links are not followed, neither when a folder is listed nor when a file is
read. So a concurrent change in the directory cannot redirect a read.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SKILL_FILE = "SKILL.md"
"""The file that makes a folder a skill; it is listed first."""
MAX_FILES = 500
"""Files of one folder that are listed."""
MAX_DEPTH = 8

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# Opening a pipe would block until someone writes to it.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK

Entry = os.DirEntry[str]


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Metadata that changes when a file changes."""

    size: int
    """In bytes."""
    modified_ns: int
    changed_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The files of a folder; hidden ones are left out."""

    files: Mapping[str, FileStamp]
    """By their path in the folder."""
    links: Sequence[str]
    is_truncated: bool
    """Whether the folder has more files than were listed."""


def list_folder(folder: Path) -> FolderListing:
    """Return the files of a folder, at every depth; raises `OSError`."""
    files: dict[str, FileStamp] = {}
    links: list[str] = []
    entries = list(islice(_walk(folder, "", 0), MAX_FILES + 1))
    for path, entry in entries[:MAX_FILES]:
        if entry is None or not _is_utf8(path):
            continue
        if entry.is_symlink():
            links.append(path)
        elif entry.is_file(follow_symlinks=False):
            files[path] = _stamp(entry.stat(follow_symlinks=False))
    is_truncated = len(entries) > MAX_FILES or any(
        entry is None for _, entry in entries
    )
    return FolderListing(files, links, is_truncated)


def _walk(folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Entry | None]]:
    """Yield each entry with its path, files first; None marks a folder that is too
    deep."""
    for entry in list_visible(folder):
        path = prefix + entry.name
        if not entry.is_dir(follow_symlinks=False):
            yield path, entry
        elif depth < MAX_DEPTH:
            yield from _walk(folder / entry.name, f"{path}/", depth + 1)
        else:
            yield path, None


def list_visible(folder: Path) -> list[Entry]:
    """Return the visible entries of a folder, files first, by name."""
    with os.scandir(folder) as found:
        return sorted((e for e in found if not e.name.startswith(".")), key=_sort_key)


def _sort_key(entry: Entry) -> tuple[bool, bool, str]:
    is_folder = entry.is_dir(follow_symlinks=False)
    return (is_folder, entry.name != SKILL_FILE, entry.name)


def _is_utf8(path: str) -> bool:
    """Whether a path is UTF-8; JSON cannot express others."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stamp(status: os.stat_result) -> FileStamp:
    return FileStamp(
        status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    )


def read_file(directory: Path, steps: Sequence[str], max_bytes: int) -> bytes:
    """Return the first `max_bytes` bytes of a file below a directory.

    Raises `OSError` if the file does not exist, or if its path is or contains a link.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            below = os.open(step, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        file = os.open(steps[-1], FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        return _read_regular_file(file, max_bytes)
    finally:
        os.close(file)


def _read_regular_file(file: int, max_bytes: int) -> bytes:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError("it is not a file")
    with os.fdopen(file, "rb", closefd=False) as opened:
        return opened.read(max_bytes)
