"""Describe an edit by names only; values may be secrets and never appear."""

from collections.abc import Mapping
from typing import Any

from config.sections import Config, Section


def describe_section_change(old: Config, new: Config, section: Section[Any]) -> str:
    """Describe the changes of a section; empty if there are none."""
    before, after = old.get(section), new.get(section)
    if before == after:
        return ""
    was, now = _entries_by_name(before), _entries_by_name(after)
    if was is None or now is None:
        return f"{section.key} changed"
    return f"{section.key}: {describe_entry_changes(was, now) or 'reordered'}"


def describe_entry_changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe added, removed and changed entries; empty if there are none."""
    common = was.keys() & now.keys()
    changes = {
        "added": now.keys() - was.keys(),
        "removed": was.keys() - now.keys(),
        "changed": {name for name in common if was[name] != now[name]},
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
