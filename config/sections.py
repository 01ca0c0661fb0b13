"""The declaration of a YAML section, and a valid snapshot of all sections.

Each app's `config.py` creates one `Section` per top-level key it owns, and
`settings.COULISSE_SECTIONS` lists it; nothing else in this layer knows the apps.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from django.conf import settings
from django.utils.module_loading import import_string
from pydantic import TypeAdapter

from config.loading.overlays import NO_OVERLAYS, Overlays

T = TypeVar("T")

Location = tuple[str | int, ...]
"""A path in the YAML: `("agents", 2, "provider")`."""


def entries_of(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Return the keys or indexes of a map or a list, and what they lead to."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file; the first line and column are 1, as in editors."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the configuration, its position and its remedy.

    A section's check gives a location; the loader finds its position in the file.
    """

    location: Location
    message: str
    code: str
    """A stable id such as `coulisse.E012`; `config/errors.py` lists them."""
    position: Position | None = None

    def __str__(self) -> str:
        return f"{self.position}: {self.message}" if self.position else self.message


@dataclass(frozen=True)
class Section(Generic[T]):
    """One top-level key: its shape, default and checks."""

    key: str
    shape: Any
    """A type that pydantic validates; it refuses unknown keys."""
    default: Callable[[], T]
    """Returns the value if the key is absent."""
    noun: str = ""
    """The word for one entry in messages: `agent`, `provider`."""
    required: bool = False
    check: Callable[[T, "Config"], Iterable[Problem]] | None = None
    """Finds broken references to other sections."""
    applies: Literal["live", "restart"] = "live"
    """Whether a running server applies an edit at once."""
    is_overridable: bool = False
    """Whether the studio may override, add and disable entries. The section is then a
    list of entries with a `name`, and its edits apply at once."""
    file_only: Callable[[T], Mapping[str, Any]] | None = None
    """Returns the values that only the file may set, by their name in messages:
    commands and paths on this machine. The studio cannot change them
    (`config/editing/file_editor.py`)."""
    is_per_machine: bool = False
    """Whether it describes one machine, whose file alone may then set it: the studio
    stores no override of it."""
    fails_closed: bool = False
    """Whether the file's value must not replace an override that is rejected, because
    it could open access, lift limits or delete data."""
    description: str = ""
    """The purpose of the key, for editors and the studio."""

    @property
    def has_named_entries(self) -> bool:
        """Whether it is a map of entries, each of which has an override of its own."""
        return bool(self.noun) and self.schema.get("type") != "array"

    @cached_property
    def adapter(self) -> TypeAdapter[T]:
        """Validates the section's data and generates its JSON Schema."""
        return TypeAdapter(self.shape)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema; must not be modified."""
        return self.adapter.json_schema()


@dataclass(frozen=True)
class SectionView(Generic[T]):
    """A section for apps that must not import the section's own app.

    `T` is a protocol that declares only the members they need.
    """

    key: str
    default: Callable[[], T]


def registered_sections() -> dict[str, Section[Any]]:
    """Return the sections in `settings.COULISSE_SECTIONS`, by key."""
    sections = (import_string(path) for path in settings.COULISSE_SECTIONS)
    return {section.key: section for section in sections}


ConfigCheck = Callable[["Config"], Iterable[Problem]]


def registered_checks() -> list[ConfigCheck]:
    """Return the checks in `settings.COULISSE_CHECKS`.

    These checks compare sections of apps that do not import each other.
    """
    return [import_string(path) for path in settings.COULISSE_CHECKS]


@dataclass(frozen=True, slots=True)
class RejectedOverride:
    """A studio entry that conflicts with the file and so is not applied."""

    section: str
    name: str
    problems: tuple[Problem, ...]
    is_tombstone: bool = False
    rejected_before: int = field(default=0, compare=False)
    """The number of overrides rejected earlier; their absence may be the cause."""

    @property
    def reason(self) -> str:
        """Its problems, one per line."""
        return "\n".join(map(str, self.problems))


@dataclass(frozen=True)
class Config:
    """A snapshot of the file with the studio's overrides.

    It is immutable; an edit creates another one.
    """

    path: Path
    values: Mapping[str, Any]
    """The validated value of each section, by its key."""
    digest: str = ""
    """Identifies the file's content."""
    content: bytes = b""
    """The file's content."""
    overlays: Overlays = NO_OVERLAYS
    """The studio's overrides, including the rejected ones."""
    rejected_overrides: tuple[RejectedOverride, ...] = ()
    """The overrides that conflict with the file."""

    def get(self, section: Section[T] | SectionView[T]) -> T:
        """Return the value of a section, or its default if the file lacks it."""
        try:
            value: T = self.values[section.key]
        except KeyError:
            return section.default()
        return value
