"""Edit conflicts: an object changed after its form was loaded.

The form keeps the submitted text and takes the version of the current state, which it
shows. Saving again replaces that state.
"""

from typing import Any, NamedTuple

from config.overrides import overridable_entries

CURRENT_LABEL, SUBMITTED_LABEL = "current version", "your edit"


class EditConflict(NamedTuple):
    """The current state of an object that changed while a form edited it."""

    url: str
    """The page that shows its current state."""
    diff: str | None
    """The changes that saving would make, as a unified diff; None if it is not YAML."""


def submitted_form(
    text: str, loaded: str, *, version: str, current: str | None, url: str
) -> dict[str, Any]:
    """Return a form's text, and the conflict if its loaded version is not the current.

    `current` is the current text, None if it is unreadable.
    """
    if loaded in ("", version):
        return {"yaml": text, "version": loaded}
    diff = None
    if current is not None:
        diff = overridable_entries.diff_texts(
            current, text, CURRENT_LABEL, SUBMITTED_LABEL
        )
    conflict = EditConflict(url, diff)
    return {"yaml": text, "version": version, "edit_conflict": conflict}
