"""Lists of the YAML whose entries have names of their own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from pydantic_core import PydanticCustomError

from config.validation.suggestions import did_you_mean
from core.errors import NotFound


class Named(Protocol):
    """An entry of such a list."""

    @property
    def name(self) -> str:
        """What it is called; unique among them."""


NamedEntry = TypeVar("NamedEntry", bound=Named)


def by_name(noun: str) -> Callable[[Iterable[NamedEntry]], dict[str, NamedEntry]]:
    """Return a validator that makes a list a mapping by name, in the file's order.

    It refuses a name that was taken before; `noun` is what an entry is called.
    """

    def named(entries: Iterable[NamedEntry]) -> dict[str, NamedEntry]:
        found: dict[str, NamedEntry] = {}
        for index, entry in enumerate(entries):
            if entry.name in found:
                raise PydanticCustomError(
                    "duplicate_name",
                    "another {noun} is already called '{name}'; rename one",
                    {"noun": noun, "name": entry.name, "at": (index, "name")},
                )
            found[entry.name] = entry
        return found

    return named


Found = TypeVar("Found")


def get_by_name(
    name: str, known: Mapping[str, Found], *, noun: str, unknown: type[NotFound]
) -> Found:
    """Return the entry of a name; raises `unknown`, which says what was meant."""
    if name not in known:
        raise unknown(f"there is no {noun} '{name}'{did_you_mean(name, known)}")
    return known[name]
