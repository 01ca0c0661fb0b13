"""The entries of a section as the file has them written, comments and all."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node

from config.config import VARS
from config.editing import secret_masks
from config.editing.round_trip import document, serializer
from config.errors import ConfigInvalid
from config.loading import overlay_merge, placeholders, reader
from config.loading.constructor import Tree
from config.loading.placeholders import Expander
from config.loading.reader import Source


@dataclass
class Verbatim(Expander):
    """Leaves placeholders as they are written."""

    def expand(self, text: str) -> str:
        """Return the text as the file has it."""
        return placeholders.show(text)


def verbatim(source: Source) -> Tree:
    """Return what reads a document without looking into the environment."""
    return Tree(source, Verbatim({}))


@lru_cache(maxsize=16)
def of(content: bytes, key: str) -> Mapping[str, str]:
    """Return the texts of a section's entries by name, in the file's order.

    Each is YAML by itself: what is an alias in the file is written out. Secrets, which
    an alias may lead to and a comment hold, are masked. A content that is no YAML has
    none.
    """
    try:
        source, _ = reader.scanned(secret_masks.shown(document.of(content)), "")
        tree = _expanding(source, reader.scanned(content, "")[0])
    except ConfigInvalid:
        return MappingProxyType({})
    nodes = verbatim(source).entries(source.root, ())
    items = overlay_merge.items(nodes.get(key)) or ()
    found = {}
    for item in items:
        name = overlay_merge.name_of(tree, item)
        if name is not None:
            found[name] = _text(source, item)
    return MappingProxyType(found)


@lru_cache(maxsize=1024)
def data(text: str) -> Any:
    """Return what an entry says as plain data, its placeholders as they are written.

    It is remembered: nobody may change it.
    """
    source = reader.parse(text.encode(), "")
    return verbatim(source).value(source.root, ())


def _expanding(source: Source, whole: Source) -> Tree:
    """Return what reads names as the configuration does: they may be placeholders."""
    expander = Expander(os.environ)
    variables = verbatim(whole).entries(whole.root, ()).get(VARS.key)
    known = None if variables is None else Tree(whole, expander).value(variables, ())
    expander.variables = known if isinstance(known, dict) else {}
    return Tree(source, expander)


def _text(source: Source, item: Node) -> str:
    text = _as_written(source, item)
    whole = verbatim(source).value(item, ())
    try:
        if data(text) == whole:
            return text
    except ConfigInvalid:
        pass  # An alias leads out of it.
    return f"{serializer.block(whole)}\n"


def _as_written(source: Source, item: Node) -> str:
    """Return the lines of an entry, as far to the left as its first key is."""
    start, end = item.start_mark, item.end_mark
    text = placeholders.show(source.text[start.index : end.index])
    if isinstance(item, MappingNode) and item.flow_style:
        return f"{text}\n"
    first, *rest = text.splitlines()
    lines = [first, *(_moved(line, start.column) for line in rest)]
    while len(lines) > 1 and _is_of_what_follows(rest[len(lines) - 2], start.column):
        lines.pop()
    return "\n".join(lines) + "\n"


def _moved(line: str, columns: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return line[min(indent, columns) :]


def _is_of_what_follows(line: str, column: int) -> bool:
    """Tell whether a last line is empty, or a comment on what comes next."""
    bare = line.lstrip(" ")
    return not bare or (bare.startswith("#") and len(line) - len(bare) < column)
