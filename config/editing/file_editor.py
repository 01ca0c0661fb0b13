"""Edits of the file through the studio: read, patch, validate as a whole, write.

A path is a tuple of keys: `("memory",)`, `("providers", "openai")`. Submitted content
may have masks in place of secrets; `config/editing/secret_masks.py` creates the masks.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from config import errors, live
from config.editing import (
    atomic_file,
    config_file,
    content_patch,
    document,
    section_overlays,
)
from config.editing.blocks import placement_error
from config.editing.config_file import ConfigFile
from config.editing.document import Document, KeyPath
from config.errors import (
    ConfigInvalid,
    EntryTaken,
    FileChanged,
    FileOnlySetting,
    FileUnwritable,
)
from config.loading import file_only_settings, loader, reader, resolution
from config.loading.overlays import NO_OVERLAYS
from config.sections import Config, Position, Problem

logger = logging.getLogger(__name__)

FileWrite = Callable[[], ConfigFile]
WriteRecorder = Callable[[FileWrite], ConfigFile]
"""Applies a write and records it elsewhere, atomically."""
Change = Callable[[ConfigFile], bytes]
"""Returns the new content of a file; `change_file` writes it."""


def _write_unrecorded(write: FileWrite) -> ConfigFile:
    """Apply a write without recording it."""
    return write()


# Changes.


def put_text(key_path: KeyPath, text: str) -> Change:
    """Write a text at a path verbatim; an empty text removes the value.

    The empty path is the whole file.
    """

    def change(file: ConfigFile) -> bytes:
        # The text of the whole file may replace a broken one.
        doc = _parse(file, is_replaced=not key_path)
        return content_patch.put_text(doc, key_path, text)

    return change


def put_data(
    key_path: KeyPath,
    data: Any,
    removed_comments: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Change:
    """Write data at a path; unchanged values keep their comments.

    Some comments right above a removed section are removed with it, as whole lines.
    """

    def change(file: ConfigFile) -> bytes:
        content = _remove_comments(file.content, removed_comments)
        is_restored = file.is_missing and not key_path
        doc = _parse(replace(file, content=content), is_replaced=is_restored)
        return content_patch.put_data(doc, key_path, data)

    return change


def _remove_comments(
    content: bytes, comments_by_key: Mapping[str, Collection[str]]
) -> bytes:
    for key, comments in comments_by_key.items():
        for comment in comments:
            above = f"\n\n{comment}{key}:".encode()
            content = content.replace(above, f"\n\n{key}:".encode())
    return content


def add_entry(key_path: KeyPath, text: str) -> Change:
    """Add a new entry; raises `EntryTaken` if the name exists."""

    def change(file: ConfigFile) -> bytes:
        doc = _parse(file)
        if key_path in doc.nodes:
            raise EntryTaken(f"'{key_path[-1]}' already exists under {key_path[0]}:")
        return content_patch.put_text(doc, key_path, text)

    return change


def remove_entry(key_path: KeyPath) -> Change:
    """Remove an entry; raises `EntryUnknown` if it does not exist."""
    return lambda file: content_patch.remove_entry(_parse(file), key_path)


def _parse(file: ConfigFile, *, is_replaced: bool = False) -> Document:
    if is_replaced:
        return config_file.parse_or_last_valid(file.content)
    return config_file.parse_file(file)


def check_text(key_path: KeyPath, text: str) -> list[Problem]:
    """Return the problems of a text at a path, without saving it."""
    try:
        _validate(put_text(key_path, text)(config_file.read_file()))
    except ConfigInvalid as exc:
        return relocate_problems(exc.problems, key_path, text)
    return []


def relocate_problems(
    problems: Iterable[Problem], key_path: KeyPath, text: str
) -> list[Problem]:
    """Return problems with line numbers relative to the text for the path.

    Problems elsewhere in the file name the path and have no position.
    """
    if not key_path:
        return list(problems)
    first = config_file.read_file().line_of(key_path)
    own = ".".join(key_path)
    count = text.count("\n") + 1

    def relocate(problem: Problem) -> Problem:
        position = problem.position
        if position is None or position.file == own:
            return problem
        is_in_file = position.file == config_file.display_path()
        line = position.line - (first[0] - 1 if first else 0)
        if first is None or not is_in_file or not 1 <= line <= count:
            return replace(problem, message=str(problem), position=None)
        column = max(1, position.column - first[1])
        return replace(problem, position=Position(own, line, column))

    return [relocate(problem) for problem in problems]


def split_name(text: str, fields: Sequence[str]) -> tuple[str, str]:
    """Return an entry's name, from the first of these fields it has, and the rest."""
    doc = document.parse_document(text.encode(), "body")
    field = next((f for f in fields if isinstance(doc.data.get(f), str)), None)
    if field is None:
        raise placement_error(f"'{fields[0]}' is missing in the entry", errors.MISSING)
    if len(doc.data) == 1:
        return doc.data[field], "{}"
    return doc.data[field], content_patch.remove_entry(doc, (field,)).decode()


def change_file(
    change: Change,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Validate and write a change; return the file after it.

    Raises `FileChanged` if the file's version is another one.
    """
    # The file lock comes before the database lock, which is not held during validation.
    with atomic_file.lock_writes():
        before = config_file.read_file()
        after = apply_change(change, before, version)
        if after == before:
            return before

        def write() -> ConfigFile:
            # Text editors take no lock, and validation takes a while.
            if config_file.read_file() != before:
                raise FileChanged
            if before.is_missing:
                atomic_file.create_file(before.path, after.content)
            else:
                atomic_file.replace_file(
                    before.path, after.content, before=before.content
                )
            return after

        try:
            return record(write)
        except BaseException:
            _undo(after, before)
            raise


def apply_change(change: Change, before: ConfigFile, version: str | None) -> ConfigFile:
    """Return the file with a valid change; raises as `change_file` does."""
    if version is not None and version != before.version:
        raise FileChanged
    after = replace(before, content=change(before), is_missing=False)
    if after != before:
        check_file_only(_last_valid_config(before.content), _validate(after.content))
    return after


def _undo(after: ConfigFile, before: ConfigFile) -> None:
    """Restore the previous content of a written file, unless it has changed since."""
    try:
        if config_file.read_file() != after:
            return
        if before.is_missing:
            before.path.unlink()
        else:
            atomic_file.replace_file(before.path, before.content)
    except (ConfigInvalid, FileUnwritable, OSError):
        path = config_file.display_path()
        logger.exception("could not undo an unrecorded change of %s", path)


def _validate(content: bytes) -> Config:
    """Return the validated configuration of a content; raises `ConfigInvalid`."""
    if len(content) > reader.MAX_BYTES:
        raise placement_error("the file would be larger than 1 MiB", errors.UNREADABLE)
    overlays = NO_OVERLAYS
    if not config_file.is_file_edited():
        overlays = section_overlays.without_sections(config_file.stored_overlays())
    elif config := live.current_or_none():
        overlays = config.overlays
    return resolution.resolve(content, config_file.config_path(), overlays)


def _last_valid_config(content: bytes) -> Config:
    """Return the configuration of the file, or of the last valid content."""
    try:
        return loader.parse_config(content, config_file.config_path())
    except ConfigInvalid:
        return live.current()


def check_file_only(before: Config, after: Config) -> None:
    """Raise `FileOnlySetting` if an edit changes a file-only value."""
    for section, name in file_only_settings.find_changes(before, after):
        raise FileOnlySetting(file_only_settings.denial_message(section, name))
