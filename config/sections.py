"""What an app declares about its slice of the YAML, and one valid reading of it all.

Each app's `config.py` makes one `Section` per top-level key it owns and names it in
`settings.COULISSE_SECTIONS`; nothing else in this layer knows the apps.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from django.conf import settings
from django.utils.module_loading import import_string
from pydantic import TypeAdapter

from config.overlays import NO_OVERLAYS, Overlays

T = TypeVar("T")

Location = tuple[str | int, ...]
"""Where something stands in the YAML: `("agents", 2, "provider")`."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file, as an editor counts: the first line and column are 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the configuration, where it is and how to mend it.

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
    """One top-level key: its shape, its default and its own checks."""

    key: str
    shape: Any
    """A type pydantic can validate; unknown keys are refused by it."""
    default: Callable[[], T]
    """Makes the value when the key is absent."""
    noun: str = ""
    """What one entry is called in messages: `agent`, `provider`."""
    required: bool = False
    check: Callable[[T, "Config"], Iterable[Problem]] | None = None
    """Finds references to other sections that lead nowhere."""
    applies: Literal["live", "restart"] = "live"
    """Whether a running server takes an edit at once."""
    is_overridable: bool = False
    """Whether the studio may shadow, add and disable entries: it is a list of entries
    with a `name`, and an edit of it applies at once."""
    file_only: Callable[[T], Mapping[str, Any]] | None = None
    """Returns what of the value only the file may say, by what messages call it: what
    is run on this machine. The studio does not change it
    (`config/editing/file_only_settings.py`)."""
    description: str = ""
    """What the key is for, shown by editors; empty takes the reference's own line."""

    @cached_property
    def adapter(self) -> TypeAdapter[T]:
        """What validates the slice and describes it as JSON Schema."""
        return TypeAdapter(self.shape)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema; not to be changed."""
        return self.adapter.json_schema()


@dataclass(frozen=True)
class SectionView(Generic[T]):
    """A section as apps read it that must not import the app it belongs to.

    `T` is a protocol: no more of the value is declared than they need.
    """

    key: str
    default: Callable[[], T]


def registered_sections() -> dict[str, Section[Any]]:
    """Return the sections `settings.COULISSE_SECTIONS` names, by key."""
    sections = (import_string(path) for path in settings.COULISSE_SECTIONS)
    return {section.key: section for section in sections}


ConfigCheck = Callable[["Config"], Iterable[Problem]]


def registered_checks() -> list[ConfigCheck]:
    """Return the checks `settings.COULISSE_CHECKS` names.

    They look at what sections of apps that are strangers to each other say together.
    """
    return [import_string(path) for path in settings.COULISSE_CHECKS]


@dataclass(frozen=True, slots=True)
class RejectedOverride:
    """An entry of the studio that does not fit the file, and so does not run."""

    section: str
    name: str
    problems: tuple[Problem, ...]
    is_tombstone: bool = False
    rejected_before: int = field(default=0, compare=False)
    """How many had been set aside before it was found; it may be for want of them."""

    @property
    def why(self) -> str:
        """What is wrong with it, in lines."""
        return "\n".join(map(str, self.problems))


@dataclass(frozen=True)
class Config:
    """A snapshot of the file, with what the studio says laid over it.

    It never changes; an edit makes another one.
    """

    path: Path
    values: Mapping[str, Any]
    """The validated value of each section, by its key."""
    digest: str = ""
    """Tells one content of the file from another."""
    content: bytes = b""
    """The file's."""
    overlays: Overlays = NO_OVERLAYS
    """What the studio says, whether or not it fits."""
    rejected_overrides: tuple[RejectedOverride, ...] = ()
    """What of that does not."""

    def get(self, section: Section[T] | SectionView[T]) -> T:
        """Return the value of a section, its default when the file has none."""
        try:
            value: T = self.values[section.key]
        except KeyError:
            return section.default()
        return value
