"""Edit conflicts: an object changed after its form was loaded.

The form keeps the submitted text and takes the version of the current state, which it
shows. Saving again replaces that state.
"""

from typing import NamedTuple

from config.overrides import overridable_entries

CURRENT_LABEL, SUBMITTED_LABEL = "current version", "your edit"


class EditConflict(NamedTuple):
    """The current state of an object that changed while a form edited it."""

    url: str
    """The page that shows its current state."""
    diff: str | None
    """The changes that saving would make, as a unified diff; None if it is not YAML."""


def describe_conflict(current: str | None, submitted: str, url: str) -> EditConflict:
    """Compare the submitted text with the current one, which is None if unreadable."""
    diff = (
        None
        if current is None
        else overridable_entries.diff_texts(
            current, submitted, CURRENT_LABEL, SUBMITTED_LABEL
        )
    )
    return EditConflict(url, diff)
