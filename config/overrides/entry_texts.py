"""The verbatim texts of a section's entries in the file, with comments."""

import os
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node

from config.config import VARS
from config.editing import blocks, document, round_trip, secret_masks
from config.errors import ConfigInvalid
from config.loading import overlay_merge, placeholders, reader
from config.loading.constructor import ValueTree, verbatim_tree
from config.loading.placeholders import Expander
from config.loading.reader import YamlSource


@lru_cache(maxsize=16)
def read_texts(content: bytes, key: str) -> Mapping[str, str]:
    """Return the texts of a section's entries by name, in the file's order.

    Each text is YAML by itself: aliases are expanded. Secrets, also in comments and
    behind aliases, are masked. Invalid YAML has no entries.
    """
    try:
        doc = document.parse_document(content)
        source = secret_masks.mask_document(doc).source
        tree = _expanding_tree(source, doc.source)
    except ConfigInvalid:
        return MappingProxyType({})
    nodes = verbatim_tree(source).entries(source.root, ())
    items = overlay_merge.list_items(nodes.get(key)) or ()
    found = {}
    for item in items:
        name = overlay_merge.entry_name(tree, item)
        if name is not None:
            found[name] = _entry_text(source, item)
    return MappingProxyType(found)


@lru_cache(maxsize=1024)
def parse_data(text: str) -> Any:
    """Return an entry as plain data, placeholders as written.

    The result is cached and must not be modified.
    """
    source = reader.parse_source(text.encode(), "")
    return verbatim_tree(source).value(source.root, ())


def _expanding_tree(source: YamlSource, whole: YamlSource) -> ValueTree:
    """Return a value tree that expands names: they may contain placeholders."""
    expander = Expander(os.environ)
    variables = verbatim_tree(whole).entries(whole.root, ()).get(VARS.key)
    known = (
        None if variables is None else ValueTree(whole, expander).value(variables, ())
    )
    expander.variables = known if isinstance(known, dict) else {}
    return ValueTree(source, expander)


def _entry_text(source: YamlSource, item: Node) -> str:
    text = _source_lines(source, item)
    whole = verbatim_tree(source).value(item, ())
    try:
        if parse_data(text) == whole:
            return text
    except ConfigInvalid:
        pass  # An alias refers to an anchor outside the entry.
    return f"{round_trip.dump_block(whole)}\n"


def _source_lines(source: YamlSource, item: Node) -> str:
    """Return the lines of an entry, dedented to its first key."""
    start, end = item.start_mark, item.end_mark
    text = placeholders.reveal(source.text[start.index : end.index])
    if isinstance(item, MappingNode) and item.flow_style:
        return f"{text}\n"
    lines = text.splitlines()
    while len(lines) > 1 and _belongs_to_next(lines[-1], start.column):
        lines.pop()
    return blocks.dedent("\n".join(lines), start.column) + "\n"


def _belongs_to_next(line: str, column: int) -> bool:
    """Return whether a last line is empty, or a comment on the next entry."""
    stripped = line.lstrip(" ")
    return not stripped or (
        stripped.startswith("#") and len(line) - len(stripped) < column
    )
