"""Format the studio's overrides for the terminal and as JSON."""

from collections.abc import Iterator
from typing import Any

from config.overrides import overridable_entries
from config.overrides.overridable_entries import OverridableEntry


def entry_lines(entry: OverridableEntry) -> Iterator[str]:
    """Return an entry's line, and below it the reason if it is rejected."""
    yield "  ".join(
        filter(None, [entry.section.key, entry.name, describe_label(entry)])
    )
    for line in entry.reason.splitlines():
        yield f"  {line}"


def describe_label(entry: OverridableEntry) -> str:
    """Return the entry's label, the time of the override and its author."""
    suffix = ", rejected" if entry.is_rejected else ""
    if entry.changed_at is None:
        return f"{entry.label}{suffix}"
    changed_at = f"{entry.changed_at:%Y-%m-%d %H:%M:%S}"
    return f"{entry.label}{suffix}  since {changed_at}  by {entry.changed_by}"


def detail_lines(entry: OverridableEntry) -> Iterator[str]:
    """Return all details of an entry."""
    yield from entry_lines(entry)
    yield ""
    yield from entry.text.splitlines()
    diff = overridable_entries.diff_entry(entry)
    if diff:
        yield ""
        yield from diff.splitlines()
    versions = overridable_entries.list_versions(entry.section, entry.name)
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
        "is_rejected": entry.is_rejected,
        "reason": entry.reason,
        "version": entry.version,
        "changed_at": entry.changed_at,
        "changed_by": entry.changed_by,
        "yaml": entry.text,
    }
