"""Edits of the file through the studio: read, spliced, judged whole, written.

A place is named by the keys that lead to it: `("memory",)`, `("providers", "openai")`,
in a list by the name of its entry. What is shown has masks in place of secrets, and
what is given back may have them; `config/editing/secret_masks.py` knows what they stand
for.
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
"""Makes a change and writes it down elsewhere, both or neither."""


def _write_unrecorded(write: FileWrite) -> "ConfigFile":
    """Make a change that is written down nowhere."""
    return write()


@dataclass(frozen=True)
class ConfigFile:
    """The file as it is now, without its secrets."""

    content: bytes
    path: Path
    is_missing: bool = False
    """Whether it was deleted; what is shown is what was valid last."""

    @property
    def version(self) -> str:
        """Tells this content from others; given back with a change of it."""
        return loader.content_digest(self.content)

    @cached_property
    def _document(self) -> Document:
        return _parse_or_last_valid(self.content)

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be parsed, and what is shown is what was valid last."""
        return self._document.content != self.content

    @property
    def text(self) -> str:
        """All of it; raises `ConfigInvalid` when it cannot be parsed."""
        return text_edits.apply_edits(
            self._document.text, secret_masks.mask_edits(self._document)
        )

    @property
    def data(self) -> dict[str, Any]:
        """What it says, placeholders as written; raises `ConfigInvalid` likewise."""
        return secret_masks.masked_data(self._document)

    def has_entry(self, place: KeyPath) -> bool:
        """Tell whether the file says anything there."""
        return key_paths.find_entry(self._document, place) is not None

    def text_at(self, place: KeyPath) -> str:
        """Return what is written there, from the first column; "" for nothing."""
        return content_patch.masked_text(self._document, place)

    def data_at(self, place: KeyPath) -> Any:
        """Return what it says there; None for nothing."""
        location = key_paths.to_location(self._document, place)
        return None if location is None else secret_masks.value_at(self.data, location)

    def line_of(self, place: KeyPath) -> tuple[int, int] | None:
        """Return at which line `text_at` begins, and how many columns it leaves out."""
        entry = key_paths.find_entry(self._document, place)
        return (
            text_edits.entry_text_start(self._document.source_map, entry)
            if entry
            else None
        )


def config_path() -> Path:
    """Return where the file is that this process runs with."""
    config = live.current_or_none()
    return config.path if config else Path(settings.COULISSE_CONFIG)


def read_file() -> ConfigFile:
    """Return the file, one that was deleted as what was valid last.

    Raises `ConfigInvalid` when it cannot be read, or nothing was ever valid.
    """
    file = config_path()
    try:
        return ConfigFile(reader.read_file(file), file)
    except ConfigInvalid:
        # A link that leads nowhere is mended where it leads to.
        if os.path.lexists(file) or last_valid_copy.read_copy() is None:
            raise
        return ConfigFile(b"", file, is_missing=True)


def parse_error(file: ConfigFile) -> ConfigInvalid | None:
    """Return why a file cannot be parsed, if it cannot."""
    try:
        _parse_file(file)
    except ConfigInvalid as exc:
        return exc
    return None


# Changes. Each returns the file as it is then.


def write_text(
    text: str, *, version: str | None = None, record: WriteRecorder = _write_unrecorded
) -> ConfigFile:
    """Give the file another text."""
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
    """Have the file say something else; what stays keeps its comments.

    Of those that stand right above a key some may go, too: each is whole lines.
    """
    if not isinstance(data, dict):
        raise content_patch.placement_error(
            "the file is a map of keys such as 'agents' and 'providers'"
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
    """Write a text at a place, as it is; one that is empty takes the place away."""
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
    """Have a place say something else; what stays keeps its comments."""
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
    """Write an entry that is not there yet; raises `EntryTaken` when it is."""

    def added(doc: Document) -> bytes:
        if key_paths.find_entry(doc, place) is not None:
            raise EntryTaken(f"there is a '{place[-1]}' under {place[0]}: already")
        return content_patch.put_text(doc, place, text)

    return _change_document(added, version, record)


def remove_entry(
    place: KeyPath,
    *,
    version: str | None = None,
    record: WriteRecorder = _write_unrecorded,
) -> ConfigFile:
    """Take an entry away; raises `EntryUnknown` when there is none."""
    return _change_document(
        lambda doc: content_patch.remove_entry(doc, place), version, record
    )


def check_text(text: str) -> list[Problem]:
    """Return what is wrong with a text that may become the file's."""
    try:
        old = _parse_or_last_valid(read_file().content)
        _validate(
            secret_restoration.restore_content(text.encode(), old, _display_path())
        )
    except ConfigInvalid as exc:
        return list(exc.problems)
    return []


def check_text_at(place: KeyPath, text: str) -> list[Problem]:
    """Return what is wrong with a text that may be put at a place."""
    try:
        doc = _parse_file(read_file())
        _validate(content_patch.put_text(doc, place, text))
    except ConfigInvalid as exc:
        return relocate_problems(exc.problems, place, text)
    return []


def relocate_problems(
    problems: Iterable[Problem], place: KeyPath, text: str
) -> list[Problem]:
    """Return problems with the lines of a text that was to be put at a place.

    Those elsewhere in the file say so, and have no position.
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
    """Return an entry's name, the first of these fields it has, and the rest of it."""
    doc = document.parse_document(text.encode(), "body")
    field = next((f for f in fields if isinstance(doc.data.get(f), str)), None)
    if field is None:
        raise content_patch.placement_error(
            f"the entry has no '{fields[0]}'", errors.MISSING
        )
    if len(doc.data) == 1:
        return doc.data[field], "{}"
    edits = text_edits.remove_entry(doc.source_map, doc.entries[(field,)])
    return doc.data[field], text_edits.apply_edits(doc.text, edits)


def _parse_or_last_valid(content: bytes) -> Document:
    """Return the file, or where it cannot be parsed what was valid last."""
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
    # First this lock, then the database's: it is not kept while a file is judged.
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
            # Editors take no lock, and to judge takes a while.
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
    """Give a file that was written what it held, where it was not changed since."""
    try:
        if read_file() != after:
            return
        if before.is_missing:
            before.path.unlink()
        else:
            atomic_file.replace_file(before.path, before.content)
    except (ConfigInvalid, FileUnwritable, OSError):
        logger.exception(
            "%s has a change that is written down nowhere", _display_path()
        )


def _validate(content: bytes) -> Config:
    """Return the configuration a content makes; raises `ConfigInvalid`."""
    if len(content) > reader.MAX_BYTES:
        raise content_patch.placement_error(
            "the file would be larger than 1 MiB", errors.UNREADABLE
        )
    config = live.current_or_none()
    return resolution.resolve(
        content, config_path(), config.overlays if config else NO_OVERLAYS
    )


def _last_valid_config(content: bytes) -> Config:
    """Return what the file says, or said when it was right last."""
    try:
        return loader.parse_config(content, config_path())
    except ConfigInvalid:
        return live.current()


def _parse_file(file: ConfigFile) -> Document:
    if file.is_missing:
        raise content_patch.placement_error(
            f"{_display_path()}: there is no such file; save the whole file to write again "
            "what was valid last",
            errors.UNREADABLE,
        )
    return _parse_content(file.content)


def _parse_content(content: bytes) -> Document:
    return document.parse_document(content, _display_path())


def _display_path() -> str:
    return reader.display_path(config_path())
