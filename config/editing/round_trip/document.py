"""A YAML file as it is written: its text, what stands where, and what that says."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from config.editing.round_trip import source_map
from config.editing.round_trip.source_map import Entry, Layout
from config.loading import placeholders, reader
from config.loading.constructor import Tree
from config.loading.placeholders import Expander
from config.sections import Location

BOM = "\ufeff"
MERGE = source_map.MERGE

Anchored = dict[str, list[Entry]]
Step = tuple[str | int, Entry]


class _AsWritten(Expander):
    """Leaves placeholders as they are written."""

    def expand(self, text: str) -> str:
        return placeholders.show(text)


@dataclass(frozen=True, eq=False)
class Document:
    """One content of a file, read once."""

    content: bytes
    text: str
    """Without a byte order mark."""
    file: str
    """What messages call it."""
    source_map: Layout
    data: dict[str, Any]
    """What it says, in plain values; placeholders as they are written."""
    bom: str = ""
    """The byte order mark, if it has one."""
    entries: dict[Location, Entry] = field(default_factory=dict)
    """Every value's place, by its location: through aliases, and what `<<` merges."""
    anchored: "Anchored" = field(default_factory=dict)

    def resolve_alias(self, entry: Entry) -> Entry:
        """Return the place an alias stands for, and any other as it is."""
        if entry.value.kind != "alias":
            return entry
        return _meant(entry, self.anchored) or entry

    def encode_text(self, text: str) -> bytes:
        """Return the content of a file that has another text."""
        return (self.bom + text).encode()


@lru_cache(maxsize=4)
def of(content: bytes, file: str = "") -> Document:
    """Return a content that holds a map; raises `ConfigInvalid` when it does not."""
    source, scan = reader.scanned(content, file)
    data = Tree(source, _AsWritten({})).value(source.root, ())
    found = source_map.of_scan(source.text, scan)
    anchored = _anchored(found)
    entries = _located(found, anchored)
    text = content.decode("utf-8-sig")
    mark = BOM if content.decode().startswith(BOM) else ""
    return Document(content, text, file, found, data, mark, entries, anchored)


def _anchored(found: Layout) -> Anchored:
    anchored: Anchored = defaultdict(list)
    for entry in found.walk():
        if entry.value.anchor:
            anchored[entry.value.anchor].append(entry)
    return anchored


def _meant(alias: Entry, anchored: Anchored) -> Entry | None:
    """Return what an alias stands for: its name may be given anew further down."""
    named = anchored.get(alias.value.text, [])
    before = [entry for entry in named if entry.start < alias.start]
    return before[-1] if before else None


def _located(found: Layout, anchored: Anchored) -> dict[Location, Entry]:
    located: dict[Location, Entry] = {(): found.root}
    waiting: list[tuple[Location, Entry]] = [((), found.root)]
    while waiting:
        location, entry = waiting.pop()
        for step, child in _below(entry, anchored):
            place = (*location, step)
            if place not in located:
                located[place] = child
                waiting.append((place, child))
    return located


def _below(entry: Entry, anchored: Anchored) -> list[Step]:
    """Return what is in a value, its own before what is merged in."""
    value = entry.value
    if value.kind == "alias":
        target = _meant(entry, anchored)
        return _below(target, anchored) if target else []
    if value.kind == "list":
        return list(enumerate(value.entries))
    own = [
        (placeholders.show(child.name), child)
        for child in value.entries
        if child.name != MERGE
    ]
    merged = [
        found
        for child in value.entries
        if child.name == MERGE
        for found in _merged(child, anchored)
    ]
    return [*own, *merged]


def _merged(entry: Entry, anchored: Anchored) -> list[Step]:
    value = entry.value
    if value.kind == "list":
        return [found for item in value.entries for found in _merged(item, anchored)]
    return _below(entry, anchored)
