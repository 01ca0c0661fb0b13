"""Where a text contains what a check looks for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    start: int
    end: int
    label: str
    """The kind of finding, such as `email`; the mask shows it."""
    level: str = ""
    """Its level; "" is the check's highest."""
