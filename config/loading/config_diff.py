"""Describe an edit by names only; values may be secrets and never appear."""

from collections.abc import Mapping
from typing import Any

from config.sections import Config, Section


def describe_section_change(old: Config, new: Config, section: Section[Any]) -> str:
    """Describe the changes of a section; empty if there are none."""
    before, after = old.get(section), new.get(section)
    if before == after:
        return ""
    old_entries, new_entries = _entries_by_name(before), _entries_by_name(after)
    if old_entries is None or new_entries is None:
        return f"{section.key} changed"
    changes = describe_entry_changes(old_entries, new_entries)
    return f"{section.key}: {changes or 'reordered'}"


def describe_entry_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe added, removed and changed entries; empty if there are none."""
    common = old.keys() & new.keys()
    changes = {
        "added": new.keys() - old.keys(),
        "removed": old.keys() - new.keys(),
        "changed": {name for name in common if old[name] != new[name]},
    }
    parts = [f"{verb} {_join_names(names)}" for verb, names in changes.items() if names]
    return ", ".join(parts)


def _entries_by_name(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list) and all(hasattr(item, "name") for item in value):
        return {item.name: item for item in value}
    return None


def _join_names(names: set[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
