"""A YAML file as it is written: its text, what stands where, and what that says."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from config.editing.round_trip import source_map
from config.editing.round_trip.source_map import SourceEntry, SourceMap
from config.loading import placeholders, reader
from config.loading.constructor import ValueTree
from config.loading.placeholders import Expander
from config.sections import Location

BOM = "\ufeff"
MERGE = source_map.MERGE

AnchoredEntries = dict[str, list[SourceEntry]]
Step = tuple[str | int, SourceEntry]


class _VerbatimExpander(Expander):
    """Leaves placeholders as they are written."""

    def expand(self, text: str) -> str:
        return placeholders.reveal(text)


@dataclass(frozen=True, eq=False)
class Document:
    """One content of a file, read once."""

    content: bytes
    text: str
    """Without a byte order mark."""
    file: str
    """What messages call it."""
    source_map: SourceMap
    data: dict[str, Any]
    """What it says, in plain values; placeholders as they are written."""
    bom: str = ""
    """The byte order mark, if it has one."""
    entries: dict[Location, SourceEntry] = field(default_factory=dict)
    """Every value's place, by its location: through aliases, and what `<<` merges."""
    anchored: "AnchoredEntries" = field(default_factory=dict)

    def resolve_alias(self, entry: SourceEntry) -> SourceEntry:
        """Return the place an alias stands for, and any other as it is."""
        if entry.value.kind != "alias":
            return entry
        return _resolve_alias(entry, self.anchored) or entry

    def encode_text(self, text: str) -> bytes:
        """Return the content of a file that has another text."""
        return (self.bom + text).encode()


@lru_cache(maxsize=4)
def parse_document(content: bytes, file: str = "") -> Document:
    """Return a content that holds a map; raises `ConfigInvalid` when it does not."""
    source, scan = reader.parse_with_scan(content, file)
    data = ValueTree(source, _VerbatimExpander({})).value(source.root, ())
    found = source_map.from_scan(source.text, scan)
    anchored = _collect_anchored(found)
    entries = _locate_entries(found, anchored)
    text = content.decode("utf-8-sig")
    mark = BOM if content.decode().startswith(BOM) else ""
    return Document(content, text, file, found, data, mark, entries, anchored)


def _collect_anchored(found: SourceMap) -> AnchoredEntries:
    anchored: AnchoredEntries = defaultdict(list)
    for entry in found.walk():
        if entry.value.anchor:
            anchored[entry.value.anchor].append(entry)
    return anchored


def _resolve_alias(alias: SourceEntry, anchored: AnchoredEntries) -> SourceEntry | None:
    """Return what an alias stands for: its name may be given anew further down."""
    named = anchored.get(alias.value.text, [])
    before = [entry for entry in named if entry.start < alias.start]
    return before[-1] if before else None


def _locate_entries(
    found: SourceMap, anchored: AnchoredEntries
) -> dict[Location, SourceEntry]:
    located: dict[Location, SourceEntry] = {(): found.root}
    waiting: list[tuple[Location, SourceEntry]] = [((), found.root)]
    while waiting:
        location, entry = waiting.pop()
        for step, child in _child_steps(entry, anchored):
            place = (*location, step)
            if place not in located:
                located[place] = child
                waiting.append((place, child))
    return located


def _child_steps(entry: SourceEntry, anchored: AnchoredEntries) -> list[Step]:
    """Return what is in a value, its own before what is merged in."""
    value = entry.value
    if value.kind == "alias":
        target = _resolve_alias(entry, anchored)
        return _child_steps(target, anchored) if target else []
    if value.kind == "list":
        return list(enumerate(value.entries))
    own = [
        (placeholders.reveal(child.name), child)
        for child in value.entries
        if child.name != MERGE
    ]
    merged = [
        found
        for child in value.entries
        if child.name == MERGE
        for found in _merged_steps(child, anchored)
    ]
    return [*own, *merged]


def _merged_steps(entry: SourceEntry, anchored: AnchoredEntries) -> list[Step]:
    value = entry.value
    if value.kind == "list":
        return [
            found for item in value.entries for found in _merged_steps(item, anchored)
        ]
    return _child_steps(entry, anchored)
