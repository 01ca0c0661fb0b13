"""Format the studio's overrides for the terminal and as JSON."""

from collections.abc import Iterator
from typing import Any

from config.overrides import override_editor
from config.overrides.override_editor import OverridableEntry


def entry_lines(entry: OverridableEntry) -> Iterator[str]:
    """Return an entry's line, and below it the reason if it is rejected."""
    yield "  ".join(
        filter(None, [entry.section.key, entry.name, describe_label(entry)])
    )
    for line in entry.why.splitlines():
        yield f"  {line}"


def describe_label(entry: OverridableEntry) -> str:
    """Return the entry's label, the time of the override and its author."""
    broken = ", rejected" if entry.is_broken else ""
    if entry.changed_at is None:
        return f"{entry.label}{broken}"
    when = f"{entry.changed_at:%Y-%m-%d %H:%M:%S}"
    return f"{entry.label}{broken}  since {when}  by {entry.changed_by}"


def detail_lines(entry: OverridableEntry) -> Iterator[str]:
    """Return all details of an entry."""
    yield from entry_lines(entry)
    yield ""
    yield from entry.text.splitlines()
    changed = override_editor.diff_entry(entry)
    if changed:
        yield ""
        yield from changed.splitlines()
    versions = override_editor.list_versions(entry.section, entry.name)
    if versions:
        yield ""
    for row in versions:
        yield f"{row.at:%Y-%m-%d %H:%M:%S}  {row.action:<10}  by {row.by}"


def as_json(entry: OverridableEntry) -> dict[str, Any]:
    """Return an entry as JSON data."""
    return {
        "section": entry.section.key,
        "name": entry.name,
        "label": entry.label,
        "is_broken": entry.is_broken,
        "why": entry.why,
        "version": entry.version,
        "changed_at": entry.changed_at,
        "changed_by": entry.changed_by,
        "yaml": entry.text,
    }
