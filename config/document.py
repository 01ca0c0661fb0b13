"""One valid reading of the YAML file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from config.sections import Section

T = TypeVar("T")


@dataclass(frozen=True)
class Config:
    """A snapshot: it never changes, an edit of the file makes another one."""

    path: Path
    values: Mapping[str, Any]
    """The validated value of each section, by its key."""
    digest: str = ""
    """Tells one content of the file from another."""

    def get(self, section: Section[T]) -> T:
        """Return the value of a section, its default when the file has none."""
        try:
            value: T = self.values[section.key]
        except KeyError:
            return section.default()
        return value
