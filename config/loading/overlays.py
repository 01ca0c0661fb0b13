"""The studio's overrides of the file: entries, and disabled names.

Plain values: `config/overrides/override_store.py` reads them,
`config/loading/resolution.py` applies them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Overlay:
    """One entry of a section, or a disabled name."""

    section: str
    name: str
    body: str | None
    """The entry's YAML text; None disables the name."""


@dataclass(frozen=True, slots=True)
class Overlays:
    """A snapshot of all overlays."""

    version: int = 0
    """The id of the last change; 0 before the first. Processes compare it."""
    entries: tuple[Overlay, ...] = ()

    def with_entry(self, new: Overlay) -> "Overlays":
        """Return all overlays with one replaced or appended."""
        at = (new.section, new.name)
        changed = [new if (o.section, o.name) == at else o for o in self.entries]
        return Overlays(
            self.version, tuple(changed if new in changed else [*changed, new])
        )

    def without(self, section: str, name: str) -> "Overlays":
        others = (o for o in self.entries if (o.section, o.name) != (section, name))
        return Overlays(self.version, tuple(others))


NO_OVERLAYS = Overlays()
