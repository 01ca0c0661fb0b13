"""A YAML file: its text, its data, and the node of each value."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from ruamel.yaml.nodes import (
    CollectionNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
)

from config.loading import placeholders, reader
from config.loading.constructor import ValueTree, verbatim_tree
from config.loading.reader import YamlSource
from config.sections import Location

BOM = "\ufeff"
ANCHOR_BEFORE_VALUE = re.compile(r"&\S+\s*")

KeyPath = tuple[str, ...]
"""The keys of nested maps: `("providers", "openai")`."""


def to_pointer(key_path: KeyPath) -> str:
    """Return a path as text: `providers/openai`, a slash in a key as `~1`.

    Source: RFC 6901, without the leading slash.
    """
    return "/".join(key.replace("~", "~0").replace("/", "~1") for key in key_path)


def from_pointer(text: str) -> KeyPath:
    """Return the path of a pointer made by `to_pointer`."""
    keys = text.split("/") if text else []
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in keys)


@dataclass(frozen=True, eq=False)
class Document:
    """The parsed content of a file."""

    content: bytes
    source: YamlSource

    @property
    def file(self) -> str:
        """The file's name in messages."""
        return self.source.file

    @cached_property
    def text(self) -> str:
        """Without a byte order mark; its indexes are those of the nodes' marks."""
        return self.content.decode("utf-8-sig")

    @cached_property
    def data(self) -> dict[str, Any]:
        """The data as plain values; placeholders as written."""
        data: dict[str, Any] = verbatim_tree(self.source).value(self.source.root, ())
        return data

    @cached_property
    def nodes(self) -> dict[Location, Node]:
        """Every value's node, also through aliases and `<<`."""
        return dict(_locate_nodes(verbatim_tree(self.source), self.source.root, ()))

    def span_of(self, location: Location) -> tuple[int, int]:
        """Return a value's span in the text: for an alias, its target's."""
        return scalar_span(self.text, self.nodes[location])

    def layout_of(self, location: Location) -> tuple[bool, int]:
        """Return whether a value is in brackets, and the indentation of its line."""
        above = self.nodes[location[:-1]]
        start = self.nodes[location].start_mark.index
        row = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        is_in_flow = isinstance(above, CollectionNode) and bool(above.flow_style)
        return is_in_flow, len(row) - len(row.lstrip(" "))

    def encode_text(self, text: str) -> bytes:
        """Return a text as content of this file, with its byte order mark."""
        has_mark = self.content.startswith(BOM.encode())
        return ((BOM if has_mark else "") + text).encode()


@lru_cache(maxsize=8)
def parse_document(content: bytes, file: str = "") -> Document:
    """Return a content whose root is a map; raises `ConfigInvalid` for any other."""
    doc = Document(content, reader.parse_source(content, file, is_cached=True))
    _ = doc.data  # Too many aliases are an error, too.
    return doc


def _locate_nodes(
    tree: ValueTree, node: Node, location: Location
) -> Iterator[tuple[Location, Node]]:
    yield location, node
    if isinstance(node, MappingNode):
        for key, child in tree.entries(node, location).items():
            yield from _locate_nodes(tree, child, (*location, key))
    elif isinstance(node, SequenceNode):
        for index, child in enumerate(node.value):
            yield from _locate_nodes(tree, child, (*location, index))


def scalar_span(text: str, node: Node) -> tuple[int, int]:
    """Return the span of a scalar or of a flow collection, without its anchor."""
    start, end = node.start_mark.index, node.end_mark.index
    anchor = ANCHOR_BEFORE_VALUE.match(text, start, end)
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        # Its end mark is the start of the next line.
        end = start + len(text[start:end].rstrip())
    return (anchor.end() if anchor else start), end


def iter_nodes(root: Node) -> Iterator[Node]:
    """Yield each node once, also the keys."""
    pending, seen = [root], {id(root)}
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, CollectionNode):
            pairs = node.value if isinstance(node, MappingNode) else [node.value]
            for child in (child for pair in pairs for child in pair):
                if id(child) not in seen:
                    seen.add(id(child))
                    pending.append(child)


def iter_scalars(root: Node) -> Iterator[ScalarNode]:
    """Yield each scalar of a node once, also the keys."""
    return (node for node in iter_nodes(root) if isinstance(node, ScalarNode))


def count_anchors(doc: Document) -> Counter[str]:
    """Return how often the document defines each anchor."""
    return Counter(node.anchor for node in iter_nodes(doc.source.root) if node.anchor)


def find_pair(node: Node, key: str) -> tuple[ScalarNode, Node, MappingNode] | None:
    """Return a map's own or merged entry: its key, its value and its map."""
    if not isinstance(node, MappingNode):
        return None
    merged: list[Node] = []
    for key_node, value in node.value:
        if key_node.tag.endswith(":merge"):
            merged += value.value if isinstance(value, SequenceNode) else [value]
        elif placeholders.reveal(str(key_node.value)) == key:
            return key_node, value, node
    found = (find_pair(each, key) for each in merged)
    return next(filter(None, found), None)
