"""The YAML file as the studio shows it: its text and data, with secrets masked."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings

from config import errors, live
from config.editing import blocks, data_comparison, document, secret_masks
from config.editing.document import Document, KeyPath
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
