"""The exact character position of each value in a YAML text.

The parser's nodes give a value's start. This map also has the end of its text, the
aliases that refer to it, and the position of the `:` or `-` before it. So one value can
be rewritten while every other character stays the same.
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
    """A text is not a single value that can be inserted."""


@dataclass(eq=False)
class SourceNode:
    """A value, and its first and last characters."""

    kind: NodeKind
    start: int
    """Its start, after its anchor and tag."""
    end: int
    """The position after its last character; for a block, after its last value."""
    properties_start: int
    """The start of its anchor or tag; `start` if it has none."""
    text: str = ""
    """The text of a scalar, or the name of an alias."""
    anchor: str | None = None
    is_flow: bool = False
    style: str | None = None
    """The style of a scalar: its quote, `|` or `>`."""
    entries: list["SourceEntry"] = field(default_factory=list)

    @property
    def is_block(self) -> bool:
        """Whether it is a map or list in block style."""
        return self.kind in ("list", "map") and not self.is_flow

    @property
    def canonical_value(self) -> tuple[Any, ...]:
        """The value independent of its layout, for comparison."""
        below = tuple(
            (entry.name, entry.value.anchor, entry.value.canonical_value)
            for entry in self.entries
        )
        return (self.kind, self.text.rstrip("\n"), below)

    @property
    def is_empty(self) -> bool:
        """Whether the value's text is empty."""
        return self.kind == "scalar" and self.start == self.end


@dataclass(eq=False)
class SourceEntry:
    """A value in its context: after a key, or after the `-` of a list."""

    key: SourceNode | None
    start: int
    """The start of its key or `-`."""
    mark: int
    """The position after the `:` or `-`."""
    value: SourceNode
    parent: "SourceEntry | None" = None

    @property
    def name(self) -> str:
        """The text of the key; empty in a list."""
        return self.key.text if self.key else ""

    @property
    def is_in_flow(self) -> bool:
        """Whether it is inside brackets or braces."""
        return self.parent is not None and self.parent.value.is_flow


@dataclass(eq=False)
class SourceMap:
    """A text and its single root value."""

    text: str
    root: SourceEntry

    def walk(self) -> Iterator[SourceEntry]:
        """Yield every entry, from top to bottom."""
        pending = [self.root]
        while pending:
            entry = pending.pop()
            yield entry
            pending += reversed(entry.value.entries)


def parse_source_map(text: str) -> SourceMap:
    """Return the source map of a text whose placeholders are hidden.

    Raises `PatchError` if the text is not one YAML value, and `MarkedYAMLError` if it
    is not YAML. Aliases may refer to anchors outside the text.
    """
    return build_source_map(text, scanner.scan(text))


def build_source_map(text: str, scan: Scan) -> SourceMap:
    """Return the source map of a text that is already scanned."""
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
        for _ in self._events:  # Consuming the rest reveals errors after the value.
            pass
        _set_parents(entry)
        return entry

    def _node(self, event: Any, mark: int) -> SourceNode:
        properties_start = event.start_mark.index
        if isinstance(event, AliasEvent):
            return SourceNode(
                "alias",
                properties_start,
                event.end_mark.index,
                properties_start,
                event.anchor,
            )
        if isinstance(event, ScalarEvent):
            return self._scalar(event, mark)
        start = self._contents[bisect_left(self._contents, properties_start)]
        kind: NodeKind = "map" if isinstance(event, MappingStartEvent) else "list"
        node = SourceNode(kind, start, start, properties_start, anchor=event.anchor)
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
        properties_start = start
        if own:
            next_content = self._contents[bisect_left(self._contents, own[-1][1])]
            start = min(next_content, end)
            if event.value == "" and event.style is None:
                start = end = own[-1][1]
        elif event.value == "" and not event.style:
            # The parser gives a missing value the position of the next token.
            properties_start = start = end = mark
        node = SourceNode(
            "scalar", start, end, properties_start, event.value, event.anchor
        )
        node.style = event.style
        if event.style in ("|", ">"):
            # The parser includes the empty lines below it.
            written = self.text[start:end].rstrip()
            node.end = text_lines.line_end(self.text, start + len(written))
        return node

    def _properties_from(self, start: int) -> list[tuple[int, int]]:
        """Return the anchor and tag that begin at this position, if any."""
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
        return key.end  # `{a}` has no colon

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
            # An empty item has the position of the next item's dash.
            dash = self._dashes[bisect_left(self._dashes, at) - 1]
            node.entries.append(
                SourceEntry(None, dash, dash + 1, self._node(event, dash + 1))
            )


def _set_parents(entry: SourceEntry) -> None:
    pending = [entry]
    while pending:
        parent = pending.pop()
        for child in parent.value.entries:
            child.parent = parent
        pending += parent.value.entries


def _single_document_events(events: Iterable[Any]) -> Iterator[Any]:
    has_document = False
    for event in events:
        if isinstance(event, DocumentStartEvent):
            if has_document:
                raise PatchError("a value cannot contain a second document")
            has_document = True
        elif isinstance(event, NodeEvent | MappingEndEvent | SequenceEndEvent):
            yield event
