"""YAML lists of named entries."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from pydantic_core import PydanticCustomError

from config.validation.suggestions import did_you_mean
from core.errors import NotFound


class Named(Protocol):
    """An entry of such a list."""

    @property
    def name(self) -> str:
        """The entry's unique name."""


NamedEntry = TypeVar("NamedEntry", bound=Named)


def by_name(noun: str) -> Callable[[Iterable[NamedEntry]], dict[str, NamedEntry]]:
    """Return a validator that maps a list's entries by name, in the file's order.

    The validator refuses duplicate names; `noun` is the word for an entry.
    """

    def validate(entries: Iterable[NamedEntry]) -> dict[str, NamedEntry]:
        entries_by_name: dict[str, NamedEntry] = {}
        for index, entry in enumerate(entries):
            if entry.name in entries_by_name:
                raise PydanticCustomError(
                    "duplicate_name",
                    "another {noun} already has the name '{name}'; rename one",
                    {"noun": noun, "name": entry.name, "at": (index, "name")},
                )
            entries_by_name[entry.name] = entry
        return entries_by_name

    return validate


Entry = TypeVar("Entry")


def get_by_name(
    name: str, entries: Mapping[str, Entry], *, noun: str, unknown: type[NotFound]
) -> Entry:
    """Return the entry of a name; raises `unknown` with a suggestion."""
    if name not in entries:
        raise unknown(f"there is no {noun} '{name}'{did_you_mean(name, entries)}")
    return entries[name]
