"""The studio's overrides of the file: entries, sections, and disabled names.

Plain values: `config/overrides/override_store.py` reads them,
`config/loading/resolution.py` applies them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Overlay:
    """One entry of a section, or a disabled name.

    Of a section that is not a list or map of named entries, there is one for the whole,
    with the section's key as its name.
    """

    section: str
    name: str
    body: str | None
    """The YAML text; None disables the name, or leaves the section out."""


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
