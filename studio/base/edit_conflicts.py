"""What a form shows that somebody was faster than: what is there now.

The form keeps what was typed, and its version then is that of what is shown here: who
saves it has seen what that replaces.
"""

from typing import NamedTuple

from config.overrides import override_editor

NOW, BELOW = "there now", "as it stands below"


class Change(NamedTuple):
    """What became of something while it was edited."""

    url: str
    """Where it is shown as it is now."""
    diff: str | None
    """What saving would change of it, as a unified diff; None where it is no YAML."""


def change(now: str | None, typed: str, address: str) -> Change:
    """Return what there is now, None if it cannot be read, against what was typed."""
    diff = None if now is None else override_editor.compared(now, typed, NOW, BELOW)
    return Change(address, diff)
