"""What the studio's database says over the file: entries, and names that are disabled.

Plain values: `config/stored.py` reads them, `config/effective.py` lays them over.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Overlay:
    """One entry of a section, or word that there shall be none of this name."""

    section: str
    name: str
    body: str | None
    """The entry as it was written, in YAML; None disables the name."""


@dataclass(frozen=True, slots=True)
class Overlays:
    """All of them, as they were at one time."""

    version: int = 0
    """Of the last change, any change; 0 before the first. Processes compare it."""
    entries: tuple[Overlay, ...] = ()


NONE = Overlays()
