"""Edits of the file through the studio: read, patch, validate as a whole, write.

A path is a tuple of keys: `("memory",)`, `("providers", "openai")`; a list entry is
addressed by its name. Returned content has masks in place of secrets, and submitted
content may contain them; `config/editing/secret_masks.py` creates the masks.
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
    file_only_settings,
    secret_masks,
    secret_restoration,
)
from config.editing.config_file import ConfigFile
from config.editing.round_trip import document, key_paths, text_edits
from config.editing.round_trip.document import Document
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid, EntryTaken, FileChanged, FileUnwritable
from config.loading import loader, reader, resolution
from config.loading.overlays import NO_OVERLAYS
from config.sections import Config, Position, Problem

logger = logging.getLogger(__name__)

DocumentChange = Callable[[Document], bytes]
FileWrite = Callable[[], ConfigFile]
WriteRecorder = Callable[[FileWrite], ConfigFile]
"""Applies a write and records it elsewhere, atomically."""


def _write_unrecorded(write: FileWrite) -> ConfigFile:
    """Apply a write without recording it."""
    return write()


# Changes. Each returns the file after the change.


def write_text(
    text: str, *, version: str | None = None, record: WriteRecorder = _write_unrecorded
) -> ConfigFile:
    """Replace the file's text."""
    content = text.encode()

    def change(before: bytes) -> bytes:
        old = config_file.parse_or_last_valid(before)
        is_same = old.content == before and secret_masks.masked_content(old) == content
        if is_same:
            return before
        file = config_file.display_path()
        return secret_restoration.restore_content(content, old, file)

    return _change_file(lambda file: change(file.content), version, record)


def write_data(
    data: Any,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
    removed_comments: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> ConfigFile:
    """Replace the file's data; unchanged values keep their comments.

    Some comments right above a removed key are removed with it, as whole lines.
    """
    if not isinstance(data, dict):
        raise content_patch.placement_error(
            "the data must be a map with keys such as 'agents' and 'providers'"
        )

    def change(file: ConfigFile) -> bytes:
        if file.is_missing:
            doc = config_file.parse_or_last_valid(b"")
        else:
            content = _remove_comments(file.content, removed_comments)
            doc = config_file.parse_content(content)
        return content_patch.put_data(doc, (), data)

    return _change_file(change, version, record)


def _remove_comments(
    content: bytes, comments_by_key: Mapping[str, Collection[str]]
) -> bytes:
    for key, comments in comments_by_key.items():
        for comment in comments:
            above = f"\n\n{comment}{key}:".encode()
            content = content.replace(above, f"\n\n{key}:".encode())
    return content


def put_text(
    key_path: KeyPath,
    text: str,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Write a text at a path verbatim; an empty text removes the value."""
    return _change_document(
        lambda doc: content_patch.put_text(doc, key_path, text), version, record
    )


def put_data(
    key_path: KeyPath,
    data: Any,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Write data at a path; unchanged values keep their comments."""
    return _change_document(
        lambda doc: content_patch.put_data(doc, key_path, data), version, record
    )


def add_entry(
    key_path: KeyPath,
    text: str,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Add a new entry; raises `EntryTaken` if the name exists."""

    def add(doc: Document) -> bytes:
        if key_paths.find_entry(doc, key_path) is not None:
            raise EntryTaken(f"'{key_path[-1]}' already exists under {key_path[0]}:")
        return content_patch.put_text(doc, key_path, text)

    return _change_document(add, version, record)


def remove_entry(
    key_path: KeyPath,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Remove an entry; raises `EntryUnknown` if it does not exist."""
    return _change_document(
        lambda doc: content_patch.remove_entry(doc, key_path), version, record
    )


def check_text(text: str) -> list[Problem]:
    """Return the problems of a text as the whole file, without saving it."""
    try:
        old = config_file.parse_or_last_valid(config_file.read_file().content)
        file = config_file.display_path()
        _validate(secret_restoration.restore_content(text.encode(), old, file))
    except ConfigInvalid as exc:
        return list(exc.problems)
    return []


def check_text_at(key_path: KeyPath, text: str) -> list[Problem]:
    """Return the problems of a text at a path, without saving it."""
    try:
        doc = config_file.parse_file(config_file.read_file())
        _validate(content_patch.put_text(doc, key_path, text))
    except ConfigInvalid as exc:
        return relocate_problems(exc.problems, key_path, text)
    return []


def relocate_problems(
    problems: Iterable[Problem], key_path: KeyPath, text: str
) -> list[Problem]:
    """Return problems with line numbers relative to the text for the path.

    Problems elsewhere in the file name the path and have no position.
    """
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
        raise content_patch.placement_error(
            f"'{fields[0]}' is missing in the entry", errors.MISSING
        )
    if len(doc.data) == 1:
        return doc.data[field], "{}"
    edits = text_edits.remove_entry(doc.source_map, doc.entries[(field,)])
    return doc.data[field], text_edits.apply_edits(doc.text, edits)


def _change_document(
    change: DocumentChange, version: str | None, record: WriteRecorder
) -> ConfigFile:
    return _change_file(
        lambda file: change(config_file.parse_file(file)), version, record
    )


def _change_file(
    change: Callable[[ConfigFile], bytes], version: str | None, record: WriteRecorder
) -> ConfigFile:
    # The file lock comes before the database lock, which is not held during validation.
    with atomic_file.lock_writes():
        before = config_file.read_file()
        if version is not None and version != before.version:
            raise FileChanged
        after = replace(before, content=change(before), is_missing=False)
        if after == before:
            return before
        file_only_settings.check_unchanged(
            _last_valid_config(before.content), _validate(after.content)
        )

        def write() -> ConfigFile:
            # Text editors take no lock, and validation takes a while.
            if config_file.read_file() != before:
                raise FileChanged
            if before.is_missing:
                atomic_file.create_file(before.path, after.content)
            else:
                atomic_file.replace_file(before.path, after.content)
            return after

        try:
            return record(write)
        except BaseException:
            _undo(after, before)
            raise


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
        raise content_patch.placement_error(
            "the file would be larger than 1 MiB", errors.UNREADABLE
        )
    config = live.current_or_none()
    return resolution.resolve(
        content, config_file.config_path(), config.overlays if config else NO_OVERLAYS
    )


def _last_valid_config(content: bytes) -> Config:
    """Return the configuration of the file, or of the last valid content."""
    try:
        return loader.parse_config(content, config_file.config_path())
    except ConfigInvalid:
        return live.current()
