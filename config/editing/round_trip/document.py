"""A YAML file: its text, its data, and the position of each value."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from config.editing.round_trip.source_map import (
    MERGE,
    SourceEntry,
    SourceMap,
    build_source_map,
)
from config.loading import placeholders, reader
from config.loading.constructor import ValueTree
from config.loading.placeholders import VerbatimExpander
from config.sections import Location

BOM = "\ufeff"

AnchoredEntries = dict[str, list[SourceEntry]]
Step = tuple[str | int, SourceEntry]


@dataclass(frozen=True, eq=False)
class Document:
    """The parsed content of a file."""

    content: bytes
    text: str
    """Without a byte order mark."""
    file: str
    """The file's name in messages."""
    source_map: SourceMap
    data: dict[str, Any]
    """The data as plain values; placeholders as written."""
    bom: str = ""
    """The byte order mark, if any."""
    entries: dict[Location, SourceEntry] = field(default_factory=dict)
    """Every value's entry by location, including aliases and what `<<` merges."""
    anchored: "AnchoredEntries" = field(default_factory=dict)

    def resolve_alias(self, entry: SourceEntry) -> SourceEntry:
        """Return the target of an alias; other entries unchanged."""
        if entry.value.kind != "alias":
            return entry
        return _resolve_alias(entry, self.anchored) or entry

    def encode_text(self, text: str) -> bytes:
        """Return a text as file content, with the byte order mark."""
        return (self.bom + text).encode()


@lru_cache(maxsize=4)
def parse_document(content: bytes, file: str = "") -> Document:
    """Return a content whose root is a map; raises `ConfigInvalid` for any other."""
    source, scan = reader.parse_with_scan(content, file)
    data = ValueTree(source, VerbatimExpander({})).value(source.root, ())
    source_map = build_source_map(source.text, scan)
    anchored = _collect_anchored(source_map)
    entries = _locate_entries(source_map, anchored)
    text = content.decode("utf-8-sig")
    mark = BOM if content.decode().startswith(BOM) else ""
    return Document(content, text, file, source_map, data, mark, entries, anchored)


def _collect_anchored(source_map: SourceMap) -> AnchoredEntries:
    anchored: AnchoredEntries = defaultdict(list)
    for entry in source_map.walk():
        if entry.value.anchor:
            anchored[entry.value.anchor].append(entry)
    return anchored


def _resolve_alias(alias: SourceEntry, anchored: AnchoredEntries) -> SourceEntry | None:
    """Return an alias's target; a later anchor may redefine the name."""
    named = anchored.get(alias.value.text, [])
    before = [entry for entry in named if entry.start < alias.start]
    return before[-1] if before else None


def _locate_entries(
    source_map: SourceMap, anchored: AnchoredEntries
) -> dict[Location, SourceEntry]:
    located: dict[Location, SourceEntry] = {(): source_map.root}
    pending: list[tuple[Location, SourceEntry]] = [((), source_map.root)]
    while pending:
        location, entry = pending.pop()
        for step, child in _child_steps(entry, anchored):
            child_location = (*location, step)
            if child_location not in located:
                located[child_location] = child
                pending.append((child_location, child))
    return located


def _child_steps(entry: SourceEntry, anchored: AnchoredEntries) -> list[Step]:
    """Return a value's children, its own before the merged ones."""
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
        step
        for child in value.entries
        if child.name == MERGE
        for step in _merged_steps(child, anchored)
    ]
    return [*own, *merged]


def _merged_steps(entry: SourceEntry, anchored: AnchoredEntries) -> list[Step]:
    value = entry.value
    if value.kind == "list":
        return [
            step for item in value.entries for step in _merged_steps(item, anchored)
        ]
    return _child_steps(entry, anchored)
