"""The YAML file as the studio shows it: its text and data, with secrets masked."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings

from config import errors, live
from config.editing import (
    blocks,
    data_comparison,
    document,
    secret_masks,
    section_overlays,
)
from config.editing.document import Document, KeyPath
from config.errors import ConfigInvalid
from config.loading import last_valid_copy, loader, reader
from config.loading.overlays import Overlays
from config.sections import Config


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
        return self.text_at(())

    @property
    def data(self) -> dict[str, Any]:
        """The parsed data, placeholders as written; raises `ConfigInvalid` likewise."""
        return secret_masks.mask_document(self._document).data

    def has_entry(self, key_path: KeyPath) -> bool:
        return key_path in self._document.nodes

    def text_at(self, key_path: KeyPath) -> str:
        """Return the text at the path, dedented to the first column; "" if there is
        none.
        """
        return blocks.text_at(secret_masks.mask_document(self._document), key_path)

    def data_at(self, key_path: KeyPath) -> Any:
        """Return the data at the path; None if there is none."""
        if not self.has_entry(key_path):
            return None
        return data_comparison.value_at(self.data, key_path)

    def line_of(self, key_path: KeyPath) -> tuple[int, int] | None:
        """Return the first line of `text_at`, and how many columns are dedented."""
        return blocks.line_of(self._document, key_path)


def is_file_edited() -> bool:
    """Return whether the studio writes into the file, not into the database.

    Of several processes with files of their own, an edit of the file reaches one.
    """
    return bool(settings.COULISSE_STUDIO_EDITS == "file")


def stored_overlays() -> Overlays:
    """Return the stored overrides, or those in force if the database is unavailable."""
    store = live.get_store()
    found: Overlays | None = store.read() if store else None
    return live.current().overlays if found is None else found


def config_path() -> Path:
    """Return the path of the file that this process runs with."""
    config = live.current_or_none()
    return config.path if config else Path(settings.COULISSE_CONFIG)


def read_file() -> ConfigFile:
    """Return the file; for a deleted file, the last valid content.

    If the studio writes into the database, it is the content in force with the stored
    overrides of sections. Raises `ConfigInvalid` if the file cannot be read, or no
    content was ever valid.
    """
    file = config_path()
    if not is_file_edited():
        return ConfigFile(_merged_content(live.current()), file)
    try:
        return ConfigFile(reader.read_file(file), file)
    except ConfigInvalid:
        # A broken symbolic link is repaired at its target.
        if os.path.lexists(file) or last_valid_copy.read_copy() is None:
            raise
        return ConfigFile(b"", file, is_missing=True)


def _merged_content(config: Config) -> bytes:
    rejected = {(each.section, each.name) for each in config.rejected_overrides}
    overlays = section_overlays.overlays_of_sections(stored_overlays().entries)
    applied = [o for o in overlays if (o.section, o.name) not in rejected]
    return section_overlays.merge(config.content, applied, display_path())


def parse_error(file: ConfigFile) -> ConfigInvalid | None:
    try:
        parse_file(file)
    except ConfigInvalid as exc:
        return exc
    return None


def parse_or_last_valid(content: bytes) -> Document:
    """Return the parsed file or, if it cannot be parsed, the last valid content."""
    try:
        return document.parse_document(content, display_path())
    except ConfigInvalid:
        last = last_valid_copy.read_copy()
        if last is None:
            raise
        return document.parse_document(last, display_path())


def parse_file(file: ConfigFile) -> Document:
    """Return the parsed file; raises `ConfigInvalid` if it is missing or broken."""
    if file.is_missing:
        raise blocks.placement_error(
            f"{display_path()}: the file does not exist; save the whole file to "
            "restore its last valid content",
            errors.UNREADABLE,
        )
    return document.parse_document(file.content, display_path())


def display_path() -> str:
    """Return the file's path for messages."""
    return reader.display_path(config_path())
