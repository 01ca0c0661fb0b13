"""Paths of keys in the file; list entries are addressed by name."""

from typing import Any

from config.editing.round_trip import data_merge
from config.editing.round_trip.document import Document
from config.editing.round_trip.source_map import SourceEntry
from config.sections import Location

KeyPath = tuple[str, ...]


def to_pointer(key_path: KeyPath) -> str:
    """Return a path as text: `providers/openai`, a slash in a key as `~1`.

    Source: RFC 6901, without the leading slash.
    """
    return "/".join(key.replace("~", "~0").replace("/", "~1") for key in key_path)


def from_pointer(text: str) -> KeyPath:
    """Return the path of a pointer made by `to_pointer`."""
    keys = text.split("/") if text else []
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in keys)


def find_entry(doc: Document, key_path: KeyPath) -> SourceEntry | None:
    """Return the entry at a path, or None."""
    location = to_location(doc, key_path)
    return None if location is None else doc.entries[location]


def to_location(doc: Document, key_path: KeyPath) -> Location | None:
    """Return a path as a location in the data: list names become indexes."""
    location: Location = ()
    data: Any = doc.data
    for name in key_path:
        step: str | int | None = name
        if isinstance(data, list):
            named = [data_merge.identity_of(item) == f"name:{name}" for item in data]
            step = named.index(True) if True in named else None
        elif not isinstance(data, dict) or name not in data:
            step = None
        if step is None:
            return None
        location, data = (*location, step), data[step]
    return location if location in doc.entries else None


def siblings_by_level(doc: Document, key_path: KeyPath) -> list[list[Any]]:
    """Return the siblings of a path at each of its levels."""
    levels = []
    for depth in range(len(key_path)):
        above, own = (
            find_entry(doc, key_path[:depth]),
            find_entry(doc, key_path[: depth + 1]),
        )
        siblings = doc.resolve_alias(above).value.entries if above else []
        others = [e for e in siblings if e is not own]
        levels.append(
            [(e.name, e.value.anchor, e.value.canonical_value) for e in others]
        )
    return levels
