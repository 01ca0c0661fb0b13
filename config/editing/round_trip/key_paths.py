"""Places in the file, by the keys that lead there; in a list by an entry's name."""

from typing import Any

from config.editing.round_trip import data_merge
from config.editing.round_trip.document import Document
from config.editing.round_trip.source_map import SourceEntry
from config.sections import Location

KeyPath = tuple[str, ...]


def to_pointer(place: KeyPath) -> str:
    """Return a place in one text: `providers/openai`, a slash in a key as `~1`.

    Source: RFC 6901, but for the slash it begins with.
    """
    return "/".join(key.replace("~", "~0").replace("/", "~1") for key in place)


def from_pointer(text: str) -> KeyPath:
    """Return the place of such a text."""
    keys = text.split("/") if text else []
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in keys)


def find_entry(doc: Document, place: KeyPath) -> SourceEntry | None:
    """Return what stands at a place; None for nothing."""
    where = to_location(doc, place)
    return None if where is None else doc.entries[where]


def to_location(doc: Document, place: KeyPath) -> Location | None:
    """Return where a place is in data: in a list, the entry of that name."""
    found: Location = ()
    data: Any = doc.data
    for name in place:
        step: str | int | None = name
        if isinstance(data, list):
            named = [data_merge.identity_of(item) == f"name:{name}" for item in data]
            step = named.index(True) if True in named else None
        elif not isinstance(data, dict) or name not in data:
            step = None
        if step is None:
            return None
        found, data = (*found, step), data[step]
    return found if found in doc.entries else None


def siblings_by_level(doc: Document, place: KeyPath) -> list[list[Any]]:
    """Return what stands beside a place and beside what it is in."""
    levels = []
    for depth in range(len(place)):
        above, own = find_entry(doc, place[:depth]), find_entry(doc, place[: depth + 1])
        siblings = doc.resolve_alias(above).value.entries if above else []
        others = [e for e in siblings if e is not own]
        levels.append(
            [(e.name, e.value.anchor, e.value.canonical_value) for e in others]
        )
    return levels
