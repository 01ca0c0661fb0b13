"""What a form shows that somebody was faster than: what is there now.

The form keeps what was typed, and its version then is that of what is shown here: who
saves it has seen what that replaces.
"""

from typing import NamedTuple

from config.overrides import override_editor

CURRENT_LABEL, SUBMITTED_LABEL = "there now", "as it stands below"


class EditConflict(NamedTuple):
    """What became of something while it was edited."""

    url: str
    """Where it is shown as it is now."""
    diff: str | None
    """What saving would change of it, as a unified diff; None where it is no YAML."""


def describe_conflict(now: str | None, typed: str, address: str) -> EditConflict:
    """Return what there is now, None if it cannot be read, against what was typed."""
    diff = (
        None
        if now is None
        else override_editor.diff_texts(now, typed, CURRENT_LABEL, SUBMITTED_LABEL)
    )
    return EditConflict(address, diff)
