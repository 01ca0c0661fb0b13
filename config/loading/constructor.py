"""Construct plain values from YAML nodes, with placeholders expanded and positions
kept.
"""

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from config import errors
from config.errors import ConfigInvalid
from config.loading import placeholders
from config.loading.placeholders import Expander, VerbatimExpander
from config.loading.reader import YamlSource
from config.loading.scanner import MAX_DEPTH
from config.sections import Location, Position, Problem
from core.text.sanitization import escape_and_truncate
from core.validation import storable_values

MAX_NODES = 100_000
"""Nested aliases can expand to billions of values; this limit stops long before."""

TAG = "tag:yaml.org,2002:"
# Dates stay text: model names look like dates, and no field expects a date.
TEXT_TAGS = {f"{TAG}str", f"{TAG}timestamp"}
SCALAR_TAGS = {f"{TAG}{name}" for name in ("bool", "float", "int", "null")}
MERGE_TAG = f"{TAG}merge"

SURROGATE = re.compile("[\ud800-\udfff]")
"""Halves of UTF-16 surrogate pairs."""


def verbatim_tree(source: YamlSource) -> "ValueTree":
    """Return a value tree that does not expand placeholders."""
    return ValueTree(source, VerbatimExpander({}))


MapEntry = tuple[ScalarNode, Node]


@dataclass
class ValueTree:
    """The values of a document, read one section at a time, and its problems."""

    source: YamlSource
    expander: Expander
    problems: list[Problem] = field(default_factory=list)
    positions: dict[Location, Position] = field(default_factory=dict)
    placeholder_texts: dict[Location, str] = field(default_factory=dict)
    """Values with placeholders, as written in the file."""
    scalar_texts: dict[Location, str] = field(default_factory=dict)
    """Numbers and booleans as written in the file: `1.10`."""
    failed: set[Location] = field(default_factory=set)
    """Locations where a problem left no value to validate."""
    overlay_sources: dict[int, YamlSource] = field(default_factory=dict)
    """Sources of list entries from outside the document, by `id`."""
    nodes: int = 0
    _scalars: Any = field(default_factory=lambda: YAML(typ="safe", pure=True))

    def position(self, location: Location) -> Position:
        """Return the position of a location, or of its nearest known parent."""
        while location and location not in self.positions:
            location = location[:-1]
        return self.positions.get(location) or Position(self.source.file, 1, 1)

    def entries(self, node: MappingNode, location: Location) -> dict[str, Node]:
        """Return the values of a map by key, including those merged by `<<`."""
        nodes_by_key: dict[str, Node] = {}
        merged: list[MapEntry] = []
        for key_node, value in node.value:
            if key_node.tag == MERGE_TAG:
                merged += self._merged(value, location, depth=len(location))
            elif (key := self._key(key_node, location)) is not None:
                self._add(nodes_by_key, key, key_node, value, location)
        for key_node, value in merged:
            key = self._key(key_node, location)
            if key is not None and key not in nodes_by_key:
                nodes_by_key[key] = value
                self._record_position((*location, key), key_node)
        return nodes_by_key

    def _add(
        self,
        nodes_by_key: dict[str, Node],
        key: str,
        key_node: Node,
        value: Node,
        location: Location,
    ) -> None:
        if key in nodes_by_key:
            self._add_problem(
                location,
                f"key '{key}' appears twice in this map; remove one",
                errors.DUPLICATE_KEY,
                key_node,
            )
            return
        nodes_by_key[key] = value
        self._record_position((*location, key), key_node)

    def _merged(self, node: Node, location: Location, depth: int) -> list[MapEntry]:
        """Return the entries merged by `<<`; the first one of a key wins."""
        self._count_node(node, depth)
        if isinstance(node, SequenceNode):
            return [
                entry
                for item in node.value
                for entry in self._merged(item, location, depth + 1)
            ]
        if not isinstance(node, MappingNode):
            self._add_problem(location, "'<<' must refer to a map", errors.SYNTAX, node)
            return []
        own, inherited = [], []
        for key, value in node.value:
            self._count_node(value, depth)
            if key.tag == MERGE_TAG:
                inherited += self._merged(value, location, depth + 1)
            else:
                own.append((key, value))
        return own + inherited

    def _key(self, node: Node, location: Location) -> str | None:
        if not isinstance(node, ScalarNode):
            self._add_problem(location, "a key must be text", errors.SYNTAX, node)
            return None
        return self._text(node, (*location, placeholders.reveal(node.value)))

    def text(self, node: Node) -> str | None:
        """Return a scalar as text, as validation does; None for any other node."""
        value = self.value(node, ())
        text = self.scalar_texts.get((), value)
        return text if isinstance(text, str) else None

    def value(self, node: Node, location: Location) -> Any:
        """Return a node as plain lists, maps, text, numbers, booleans and None."""
        self._count_node(node, len(location))
        if isinstance(node, MappingNode) and node.tag == f"{TAG}map":
            entries = self.entries(node, location)
            return {k: self.value(v, (*location, k)) for k, v in entries.items()}
        if isinstance(node, SequenceNode) and node.tag == f"{TAG}seq":
            return [self._item(v, (*location, i)) for i, v in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node, location)
        return self._reject_tag(node, location)

    def _item(self, node: Node, location: Location) -> Any:
        own = self.source
        self.source = self.overlay_sources.get(id(node), own)
        try:
            self._record_position(location, node)
            return self.value(node, location)
        finally:
            self.source = own

    def _scalar(self, node: ScalarNode, location: Location) -> Any:
        if node.tag in TEXT_TAGS:
            return self._text(node, location)
        if node.tag not in SCALAR_TAGS:
            return self._reject_tag(node, location)
        try:
            value = self._scalars.constructor.construct_object(node)
        except (ArithmeticError, LookupError, ValueError):
            return self._reject_tag(node, location)
        if value is not None:
            self.scalar_texts[location] = node.value
        self._check_storable(value, node, location)
        # Python refuses to format integers of thousands of digits, which messages would
        # do.
        return value if location not in self.failed else escape_and_truncate(node.value)

    def _check_storable(self, value: Any, node: Node, location: Location) -> None:
        problem = storable_values.describe_problem(value)
        if problem is not None:
            keys = [f"'{step}'" for step in location if isinstance(step, str)]
            named = keys[-1] if keys else "this"
            self._add_problem(location, f"{named} {problem}", errors.WRONG_VALUE, node)
            self.failed.add(location)

    def _text(self, node: ScalarNode, location: Location) -> str:
        raw = self._scalar_text(node, location)
        text = self.expander.expand(raw)
        if text != raw:
            self.placeholder_texts[location] = placeholders.reveal(raw)
        for failure in self.expander.failures:
            self.failed.add(location)
            index = self._placeholder_index(node, failure.index)
            position = self.source.position(index)
            self.problems.append(
                Problem(location, failure.message, failure.code, position)
            )
        # The written text avoids a second problem: a failed value is not empty.
        return self.placeholder_texts[location] if self.expander.failures else text

    def _scalar_text(self, node: ScalarNode, location: Location) -> str:
        """Return a scalar's text, with escaped surrogate pairs, as in JSON, joined.

        The node stays unchanged, because it may be validated again.
        """
        raw: str = node.value
        if not SURROGATE.search(raw):
            self._check_storable(raw, node, location)
            return raw
        halves = raw.encode("utf-16", "surrogatepass")
        try:
            return halves.decode("utf-16")
        except UnicodeDecodeError:
            message = "an escape such as \\uD83D is half a character; write both halves"
            self._add_problem(location, message, errors.SYNTAX, node)
            self.failed.add(location)
            return halves.decode("utf-16", "replace")

    def _placeholder_index(self, node: ScalarNode, count: int) -> int:
        """Return the position in the text of a scalar's n-th placeholder.

        Hidden placeholders pass the parser unchanged, so the scalar's n-th is the
        n-th of the text from where the scalar starts.
        """
        start: int = node.start_mark.index
        spans = placeholders.hidden_spans(self.source.text, start)
        found, _ = next(islice(spans, count, None), (start, start))
        return found

    def _reject_tag(self, node: Node, location: Location) -> None:
        tag = str(node.tag).replace(TAG, "!!")
        message = f"YAML tag '{tag}' is not supported here; remove it"
        self._add_problem(location, message, errors.SYNTAX, node)
        self.failed.add(location)

    def _count_node(self, node: Node, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            message = (
                f"aliases expand the document to more than {MAX_NODES:,} values or "
                f"{MAX_DEPTH} levels; use fewer aliases"
            )
            self._add_problem((), message, errors.TOO_LARGE, node)
            raise ConfigInvalid(self.problems)

    def _record_position(self, location: Location, node: Node) -> None:
        self.positions[location] = self._position_of(node)

    def _position_of(self, node: Node) -> Position:
        mark = node.start_mark
        return Position(self.source.file, mark.line + 1, mark.column + 1)

    def _add_problem(
        self, location: Location, message: str, code: str, node: Node
    ) -> None:
        self.problems.append(Problem(location, message, code, self._position_of(node)))
