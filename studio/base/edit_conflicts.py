"""Edit conflicts: a form's object changed after the form was loaded.

The form keeps the typed text and takes the version of the current state that it shows,
so saving it again replaces a state that the user has seen.
"""

from typing import NamedTuple

from config.overrides import overridable_entries

CURRENT_LABEL, SUBMITTED_LABEL = "there now", "as it stands below"


class EditConflict(NamedTuple):
    """The current state of an object that changed while a form edited it."""

    url: str
    """The page that shows its current state."""
    diff: str | None
    """The changes that saving would make, as a unified diff; None if it is not YAML."""


def describe_conflict(now: str | None, typed: str, address: str) -> EditConflict:
    """Compare the typed text with the current text, which is None if unreadable."""
    diff = (
        None
        if now is None
        else overridable_entries.diff_texts(now, typed, CURRENT_LABEL, SUBMITTED_LABEL)
    )
    return EditConflict(address, diff)
