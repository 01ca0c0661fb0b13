"""Edits of the file through the studio: read, patch, validate as a whole, write.

A path is a tuple of keys: `("memory",)`, `("providers", "openai")`; a list entry is
addressed by its name. Returned content has masks in place of secrets, and submitted
content may contain them; `config/editing/secret_masks.py` creates the masks.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.conf import settings

from config import errors, live
from config.editing import (
    atomic_file,
    content_patch,
    file_only_settings,
    secret_masks,
    secret_restoration,
)
from config.editing.round_trip import document, key_paths, text_edits
from config.editing.round_trip.document import Document
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid, EntryTaken, FileChanged, FileUnwritable
from config.loading import last_valid_copy, loader, reader, resolution
from config.overlays import NO_OVERLAYS
from config.sections import Config, Position, Problem

logger = logging.getLogger(__name__)

DocumentChange = Callable[[Document], bytes]
FileWrite = Callable[[], "ConfigFile"]
WriteRecorder = Callable[[FileWrite], "ConfigFile"]
"""Applies a write and records it elsewhere, atomically."""


def _write_unrecorded(write: FileWrite) -> "ConfigFile":
    """Apply a write without recording it."""
    return write()


@dataclass(frozen=True)
class ConfigFile:
    """The current file with its secrets masked."""

    content: bytes
    path: Path
    is_missing: bool = False
    """Whether the file was deleted; the content is then the last valid one."""

    @property
    def version(self) -> str:
        """Identifies this content; the client sends it back with a change."""
        return loader.content_digest(self.content)

    @cached_property
    def _document(self) -> Document:
        return _parse_or_last_valid(self.content)

    @property
    def is_broken(self) -> bool:
        """Whether the file cannot be parsed; the content is then the last valid one."""
        return self._document.content != self.content

    @property
    def text(self) -> str:
        """The whole text; raises `ConfigInvalid` if it cannot be parsed."""
        return text_edits.apply_edits(
            self._document.text, secret_masks.mask_edits(self._document)
        )

    @property
    def data(self) -> dict[str, Any]:
        """The parsed data, placeholders as written; raises `ConfigInvalid` likewise."""
        return secret_masks.masked_data(self._document)

    def has_entry(self, place: KeyPath) -> bool:
        """Return whether the file has a value at the path."""
        return key_paths.find_entry(self._document, place) is not None

    def text_at(self, place: KeyPath) -> str:
        """Return the text at the path, dedented to the first column; "" if there is
        none.
        """
        return content_patch.masked_text(self._document, place)

    def data_at(self, place: KeyPath) -> Any:
        """Return the data at the path; None if there is none."""
        location = key_paths.to_location(self._document, place)
        return None if location is None else secret_masks.value_at(self.data, location)

    def line_of(self, place: KeyPath) -> tuple[int, int] | None:
        """Return the first line of `text_at`, and how many columns are dedented."""
        entry = key_paths.find_entry(self._document, place)
        return (
            text_edits.entry_text_start(self._document.source_map, entry)
            if entry
            else None
        )


def config_path() -> Path:
    """Return the path of the file that this process runs with."""
    config = live.current_or_none()
    return config.path if config else Path(settings.COULISSE_CONFIG)


def read_file() -> ConfigFile:
    """Return the file; for a deleted file, the last valid content.

    Raises `ConfigInvalid` if the file cannot be read, or no content was ever valid.
    """
    file = config_path()
    try:
        return ConfigFile(reader.read_file(file), file)
    except ConfigInvalid:
        # A broken symbolic link is repaired at its target.
        if os.path.lexists(file) or last_valid_copy.read_copy() is None:
            raise
        return ConfigFile(b"", file, is_missing=True)


def parse_error(file: ConfigFile) -> ConfigInvalid | None:
    """Return the parse error of a file, or None."""
    try:
        _parse_file(file)
    except ConfigInvalid as exc:
        return exc
    return None


# Changes. Each returns the file after the change.


def write_text(
    text: str, *, version: str | None = None, record: WriteRecorder = _write_unrecorded
) -> ConfigFile:
    """Replace the file's text."""
    content = text.encode()

    def change(before: bytes) -> bytes:
        old = _parse_or_last_valid(before)
        same = old.content == before and secret_masks.masked_content(old) == content
        return (
            before
            if same
            else secret_restoration.restore_content(content, old, _display_path())
        )

    return _change_file(lambda file: change(file.content), version, record)


def write_data(
    data: Any,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
    comments_gone: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> ConfigFile:
    """Replace the file's data; unchanged values keep their comments.

    Some comments right above a removed key are removed with it, as whole lines.
    """
    if not isinstance(data, dict):
        raise content_patch.placement_error(
            "the data must be a map with keys such as 'agents' and 'providers'"
        )

    def change(file: ConfigFile) -> bytes:
        content = _remove_comments(file.content, comments_gone)
        doc = _parse_or_last_valid(b"") if file.is_missing else _parse_content(content)
        return content_patch.put_data(doc, (), data)

    return _change_file(change, version, record)


def _remove_comments(content: bytes, gone: Mapping[str, Collection[str]]) -> bytes:
    for key, comments in gone.items():
        for comment in comments:
            above = f"\n\n{comment}{key}:".encode()
            content = content.replace(above, f"\n\n{key}:".encode())
    return content


def put_text(
    place: KeyPath,
    text: str,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Write a text at a path verbatim; an empty text removes the value."""
    return _change_document(
        lambda doc: content_patch.put_text(doc, place, text), version, record
    )


def put_data(
    place: KeyPath,
    data: Any,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Write data at a path; unchanged values keep their comments."""
    return _change_document(
        lambda doc: content_patch.put_data(doc, place, data), version, record
    )


def add_entry(
    place: KeyPath,
    text: str,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Add a new entry; raises `EntryTaken` if the name exists."""

    def added(doc: Document) -> bytes:
        if key_paths.find_entry(doc, place) is not None:
            raise EntryTaken(f"'{place[-1]}' already exists under {place[0]}:")
        return content_patch.put_text(doc, place, text)

    return _change_document(added, version, record)


def remove_entry(
    place: KeyPath,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Remove an entry; raises `EntryUnknown` if it does not exist."""
    return _change_document(
        lambda doc: content_patch.remove_entry(doc, place), version, record
    )


def check_text(text: str) -> list[Problem]:
    """Return the problems of a text as the whole file, without saving it."""
    try:
        old = _parse_or_last_valid(read_file().content)
        _validate(
            secret_restoration.restore_content(text.encode(), old, _display_path())
        )
    except ConfigInvalid as exc:
        return list(exc.problems)
    return []


def check_text_at(place: KeyPath, text: str) -> list[Problem]:
    """Return the problems of a text at a path, without saving it."""
    try:
        doc = _parse_file(read_file())
        _validate(content_patch.put_text(doc, place, text))
    except ConfigInvalid as exc:
        return relocate_problems(exc.problems, place, text)
    return []


def relocate_problems(
    problems: Iterable[Problem], place: KeyPath, text: str
) -> list[Problem]:
    """Return problems with line numbers relative to the text for the path.

    Problems elsewhere in the file name that place and have no position.
    """
    first = read_file().line_of(place)
    own = ".".join(place)
    count = text.count("\n") + 1

    def moved(problem: Problem) -> Problem:
        where = problem.position
        if where is None or where.file == own:
            return problem
        line = where.line - (first[0] - 1 if first else 0)
        if first is None or where.file != _display_path() or not 1 <= line <= count:
            return replace(problem, message=str(problem), position=None)
        column = max(1, where.column - first[1])
        return replace(problem, position=Position(own, line, column))

    return [moved(problem) for problem in problems]


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


def _parse_or_last_valid(content: bytes) -> Document:
    """Return the parsed file or, if it cannot be parsed, the last valid content."""
    try:
        return _parse_content(content)
    except ConfigInvalid:
        last = last_valid_copy.read_copy()
        if last is None:
            raise
        return _parse_content(last)


def _change_document(
    change: DocumentChange, version: str | None, record: WriteRecorder
) -> ConfigFile:
    return _change_file(lambda file: change(_parse_file(file)), version, record)


def _change_file(
    change: Callable[[ConfigFile], bytes], version: str | None, record: WriteRecorder
) -> ConfigFile:
    # The file lock comes before the database lock, which is not held during validation.
    with atomic_file.lock_writes():
        before = read_file()
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
            if read_file() != before:
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
        if read_file() != after:
            return
        if before.is_missing:
            before.path.unlink()
        else:
            atomic_file.replace_file(before.path, before.content)
    except (ConfigInvalid, FileUnwritable, OSError):
        logger.exception("could not undo an unrecorded change of %s", _display_path())


def _validate(content: bytes) -> Config:
    """Return the validated configuration of a content; raises `ConfigInvalid`."""
    if len(content) > reader.MAX_BYTES:
        raise content_patch.placement_error(
            "the file would be larger than 1 MiB", errors.UNREADABLE
        )
    config = live.current_or_none()
    return resolution.resolve(
        content, config_path(), config.overlays if config else NO_OVERLAYS
    )


def _last_valid_config(content: bytes) -> Config:
    """Return the configuration of the file, or of the last valid content."""
    try:
        return loader.parse_config(content, config_path())
    except ConfigInvalid:
        return live.current()


def _parse_file(file: ConfigFile) -> Document:
    if file.is_missing:
        raise content_patch.placement_error(
            f"{_display_path()}: the file does not exist; save the whole file to "
            "restore its last valid content",
            errors.UNREADABLE,
        )
    return _parse_content(file.content)


def _parse_content(content: bytes) -> Document:
    return document.parse_document(content, _display_path())


def _display_path() -> str:
    return reader.display_path(config_path())
