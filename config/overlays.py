"""What the studio's database says over the file: entries, and names that are disabled.

Plain values: `config/overrides/override_store.py` reads them,
`config/loading/resolution.py` lays them over.
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

    def with_entry(self, one: Overlay) -> "Overlays":
        """Return all with one of them changed, or added as the last."""
        at = (one.section, one.name)
        changed = [one if (o.section, o.name) == at else o for o in self.entries]
        return Overlays(
            self.version, tuple(changed if one in changed else [*changed, one])
        )

    def without(self, section: str, name: str) -> "Overlays":
        """Return the others."""
        left = (o for o in self.entries if (o.section, o.name) != (section, name))
        return Overlays(self.version, tuple(left))


NO_OVERLAYS = Overlays()
