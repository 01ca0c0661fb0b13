"""The YAML file as the studio shows it: its text and data, with secrets masked."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings

from config import errors, live
from config.editing import content_patch, secret_masks
from config.editing.round_trip import document, key_paths, text_edits
from config.editing.round_trip.document import Document
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid
from config.loading import last_valid_copy, loader, reader


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
        return parse_or_last_valid(self.content)

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

    def has_entry(self, key_path: KeyPath) -> bool:
        """Return whether the file has a value at the path."""
        return key_paths.find_entry(self._document, key_path) is not None

    def text_at(self, key_path: KeyPath) -> str:
        """Return the text at the path, dedented to the first column; "" if there is
        none.
        """
        return content_patch.masked_text(self._document, key_path)

    def data_at(self, key_path: KeyPath) -> Any:
        """Return the data at the path; None if there is none."""
        location = key_paths.to_location(self._document, key_path)
        return None if location is None else secret_masks.value_at(self.data, location)

    def line_of(self, key_path: KeyPath) -> tuple[int, int] | None:
        """Return the first line of `text_at`, and how many columns are dedented."""
        entry = key_paths.find_entry(self._document, key_path)
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
        parse_file(file)
    except ConfigInvalid as exc:
        return exc
    return None


def parse_or_last_valid(content: bytes) -> Document:
    """Return the parsed file or, if it cannot be parsed, the last valid content."""
    try:
        return parse_content(content)
    except ConfigInvalid:
        last = last_valid_copy.read_copy()
        if last is None:
            raise
        return parse_content(last)


def parse_file(file: ConfigFile) -> Document:
    """Return the parsed file; raises `ConfigInvalid` if it is missing or broken."""
    if file.is_missing:
        raise content_patch.placement_error(
            f"{display_path()}: the file does not exist; save the whole file to "
            "restore its last valid content",
            errors.UNREADABLE,
        )
    return parse_content(file.content)


def parse_content(content: bytes) -> Document:
    """Return the parsed content of the file; raises `ConfigInvalid`."""
    return document.parse_document(content, display_path())


def display_path() -> str:
    """Return the file's path for messages."""
    return reader.display_path(config_path())
