"""Where each value of a YAML text stands, to the character.

The parser's nodes say where a value begins; here is also known where its text ends,
where an alias stands for it, and where the `:` or `-` before it is. So one value can
be written anew and every other character stay as it was.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)
from ruamel.yaml.tokens import (
    AnchorToken,
    BlockEntryToken,
    TagToken,
    ValueToken,
)

from config.editing.round_trip import text_lines
from config.loading import scanner
from config.loading.scanner import Scan

NodeKind = Literal["alias", "list", "map", "scalar"]
MERGE = "<<"


class PatchError(Exception):
    """A text is not one value that could stand somewhere."""


@dataclass(eq=False)
class SourceNode:
    """A value: what it is, and its first and last characters."""

    kind: NodeKind
    start: int
    """Where it begins, behind its anchor and tag."""
    end: int
    """Behind its last character; of a block, that of the last value in it."""
    properties_start: int
    """Where its anchor or tag begins; `start` when it has none."""
    text: str = ""
    """What a scalar says, and the name an alias has."""
    anchor: str | None = None
    is_flow: bool = False
    style: str | None = None
    """Of a scalar: its quote, `|` or `>`."""
    entries: list["SourceEntry"] = field(default_factory=list)

    @property
    def is_block(self) -> bool:
        """Whether it is a map or list of lines."""
        return self.kind in ("list", "map") and not self.is_flow

    @property
    def canonical_value(self) -> tuple[Any, ...]:
        """What it says, however it is laid out; to be compared."""
        below = tuple(
            (entry.name, entry.value.anchor, entry.value.canonical_value)
            for entry in self.entries
        )
        return (self.kind, self.text.rstrip("\n"), below)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written where a value could be."""
        return self.kind == "scalar" and self.start == self.end


@dataclass(eq=False)
class SourceEntry:
    """A value in its place: behind a key, or behind the `-` of a list."""

    key: SourceNode | None
    start: int
    """Where its key or its `-` is."""
    mark: int
    """Behind the `:` or `-`."""
    value: SourceNode
    parent: "SourceEntry | None" = None

    @property
    def name(self) -> str:
        """What a key says; nothing in a list."""
        return self.key.text if self.key else ""

    @property
    def is_in_flow(self) -> bool:
        """Whether it stands within brackets or braces."""
        return self.parent is not None and self.parent.value.is_flow


@dataclass(eq=False)
class SourceMap:
    """A text and the one value it holds."""

    text: str
    root: SourceEntry

    def walk(self) -> Iterator[SourceEntry]:
        """Yield every entry, from top to bottom."""
        waiting = [self.root]
        while waiting:
            entry = waiting.pop()
            yield entry
            waiting += reversed(entry.value.entries)


def parse_source_map(text: str) -> SourceMap:
    """Return where things stand in a text whose placeholders are hidden.

    Raises `PatchError` when it is not one YAML value, `MarkedYAMLError` when it is no
    YAML. Aliases may lead out of the text.
    """
    return from_scan(text, scanner.scan(text))


def from_scan(text: str, scan: Scan) -> SourceMap:
    """Return where things stand in a text that was scanned already."""
    return SourceMap(text, _SourceMapBuilder(text, scan).root())


class _SourceMapBuilder:
    def __init__(self, text: str, scan: Scan) -> None:
        self.text = text
        self._events = _single_document_events(scan.events)
        self._dashes: list[int] = []
        self._colons: list[int] = []
        self._contents: list[int] = []
        self._properties: list[tuple[int, int]] = []
        for token in scan.tokens:
            self._record_token(token)

    def _record_token(self, token: Any) -> None:
        start = token.start_mark.index
        if isinstance(token, AnchorToken | TagToken):
            self._properties.append((start, token.end_mark.index))
            return
        if isinstance(token, BlockEntryToken):
            self._dashes.append(start)
        elif isinstance(token, ValueToken):
            self._colons.append(start)
        self._contents.append(start)

    def root(self) -> SourceEntry:
        event = next(self._events, None)
        if event is None:
            empty = SourceNode("scalar", 0, 0, 0)
            return SourceEntry(None, 0, 0, empty)
        entry = SourceEntry(None, 0, 0, self._node(event, 0))
        for _ in self._events:  # What is wrong behind it shows now.
            pass
        _set_parents(entry)
        return entry

    def _node(self, event: Any, mark: int) -> SourceNode:
        outset = event.start_mark.index
        if isinstance(event, AliasEvent):
            return SourceNode(
                "alias", outset, event.end_mark.index, outset, event.anchor
            )
        if isinstance(event, ScalarEvent):
            return self._scalar(event, mark)
        start = self._contents[bisect_left(self._contents, outset)]
        kind: NodeKind = "map" if isinstance(event, MappingStartEvent) else "list"
        node = SourceNode(kind, start, start, outset, anchor=event.anchor)
        node.is_flow = bool(event.flow_style)
        fill = self._map if kind == "map" else self._list
        last = fill(node)
        if node.is_flow:
            node.end = last.end_mark.index
        elif node.entries:
            node.end = node.entries[-1].value.end
        return node

    def _scalar(self, event: ScalarEvent, mark: int) -> SourceNode:
        start, end = event.start_mark.index, event.end_mark.index
        own = [p for p in self._properties_from(start) if p[1] <= end]
        outset = start
        if own:
            next_content = self._contents[bisect_left(self._contents, own[-1][1])]
            start = min(next_content, end)
            if event.value == "" and event.style is None:
                start = end = own[-1][1]
        elif event.value == "" and not event.style:
            # The mark of what is not there is that of whatever comes next.
            outset = start = end = mark
        node = SourceNode("scalar", start, end, outset, event.value, event.anchor)
        node.style = event.style
        if event.style in ("|", ">"):
            # The parser counts the empty lines below it, too.
            written = self.text[start:end].rstrip()
            node.end = text_lines.line_end(self.text, start + len(written))
        return node

    def _properties_from(self, start: int) -> list[tuple[int, int]]:
        """Return the anchor and the tag that begin there, if any do."""
        index = bisect_left(self._properties, (start, 0))
        found = self._properties[index : index + 2]
        if not found or found[0][0] != start:
            return []
        between = self.text[found[0][1] : found[-1][0]] if len(found) == 2 else "?"
        return found if not between.strip() else found[:1]

    def _map(self, node: SourceNode) -> Any:
        while True:
            event = next(self._events)
            if isinstance(event, MappingEndEvent):
                return event
            key = self._node(event, event.start_mark.index)
            value_event = next(self._events)
            mark = self._colon_end(key, value_event)
            value = self._node(value_event, mark)
            node.entries.append(SourceEntry(key, key.properties_start, mark, value))

    def _colon_end(self, key: SourceNode, value: Any) -> int:
        index = bisect_left(self._colons, key.end)
        has = index < len(self._colons)
        if has and self._colons[index] <= value.start_mark.index:
            return self._colons[index] + 1
        return key.end  # `{a}` has none

    def _list(self, node: SourceNode) -> Any:
        while True:
            event = next(self._events)
            if isinstance(event, SequenceEndEvent):
                return event
            at = event.start_mark.index
            if node.is_flow:
                value = self._node(event, at)
                node.entries.append(
                    SourceEntry(
                        None, value.properties_start, value.properties_start, value
                    )
                )
                continue
            # An empty item's mark is that of the next one's dash.
            dash = self._dashes[bisect_left(self._dashes, at) - 1]
            node.entries.append(
                SourceEntry(None, dash, dash + 1, self._node(event, dash + 1))
            )


def _set_parents(entry: SourceEntry) -> None:
    waiting = [entry]
    while waiting:
        parent = waiting.pop()
        for child in parent.value.entries:
            child.parent = parent
        waiting += parent.value.entries


def _single_document_events(events: Iterable[Any]) -> Iterator[Any]:
    begun = False
    for event in events:
        if isinstance(event, DocumentStartEvent):
            if begun:
                raise PatchError("but found another document")
            begun = True
        elif isinstance(event, NodeEvent | MappingEndEvent | SequenceEndEvent):
            yield event
