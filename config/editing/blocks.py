"""The lines of a map's entries, and edits that replace, add or remove whole entries.

An edit touches the lines of one entry and no others. The comments above an entry and
the empty lines around it are not part of it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ruamel.yaml.events import CollectionStartEvent, DocumentStartEvent
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from config import errors
from config.editing import round_trip
from config.editing.document import (
    Document,
    KeyPath,
    find_pair,
    iter_scalars,
    scalar_span,
)
from config.errors import ConfigInvalid
from config.loading import reader
from config.sections import Problem

Edit = tuple[int, int, str]
"""A text to put between two indexes of the old text."""

ANCHOR = re.compile(r"[ \t]*&[^\s,\[\]{}]+")
ALIAS = re.compile(r"[ \t]*(\*[^\s,\[\]{}]+)")
COMMENT_LINE = re.compile(r"[ \t]*(#|$)")
INDENT = 2


def placement_error(message: str, code: str = errors.MISPLACED) -> ConfigInvalid:
    """Return the error for text or data that cannot be placed there."""
    return ConfigInvalid([Problem((), message, code)])


@dataclass(frozen=True)
class Block:
    """A map's entry: a head such as `key: &anchor # comment`, and a value."""

    start: int
    """The start of the key's line."""
    stop: int
    """The end of the entry's last line."""
    column: int
    """The key's column."""
    head: str
    """The text up to the colon, with the anchor."""
    comment: str
    """The comment on the head's line, or behind a value on the head's line."""
    value: tuple[int, int]
    """The span of the value."""
    node: Node
    is_block_value: bool
    """Whether the value is a map or a list on the lines below."""
    is_own_lines: bool
    """Whether the entry begins a line at its own place: not in a map in braces, and not
    brought there by an alias."""


def find_block(doc: Document, key_path: KeyPath) -> Block | None:
    """Return the entry at a path; None if the file has none."""
    node: Node = doc.source.root
    block = None
    is_shared = False
    for key in key_path:
        found = find_pair(node, key)
        if found is None:
            return None
        node = found[1]
        above, block = block, _block(doc.text, *found)
        # An alias or `<<` leads to lines above it.
        is_shared |= above is not None and block.start < above.start
    return replace(block, is_own_lines=False) if block and is_shared else block


def _block(text: str, key: ScalarNode, value: Node, parent: MappingNode) -> Block:
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    lead = text[start : key.start_mark.index]
    column, after = len(lead), key.end_mark.index
    colon = text.find(":", after) + 1
    anchor = ANCHOR.match(text, colon)
    head_end = anchor.end() if anchor else colon
    is_alias = value.start_mark.index < after
    is_block = isinstance(value, CollectionNode) and not value.flow_style
    is_below = is_block and not is_alias
    if is_below:
        stop = _last_line_end(text, value, after, column)
        comment = text[head_end : _line_end(text, head_end)]
        span = (min(_next_line(text, head_end), stop), stop)
    else:
        span = (head_end, head_end)
        if is_alias:
            alias = ALIAS.match(text, colon)
            span = alias.span(1) if alias else (colon, colon)
        elif value.start_mark.index < value.end_mark.index:
            span = scalar_span(text, value)
        stop = _line_end(text, span[1])
        comment = text[span[1] : stop]
    return Block(
        start=start,
        stop=stop,
        column=column,
        head=text[start:head_end],
        comment=comment.rstrip(),
        value=span,
        node=value,
        is_block_value=is_below,
        is_own_lines=not parent.flow_style and not lead.strip(" ?"),
    )


def _line_end(text: str, index: int) -> int:
    """Return the end of a line, before its line break."""
    end = text.find("\n", index)
    end = len(text) if end < 0 else end
    return end - 1 if end > index and text[end - 1] == "\r" else end


def _next_line(text: str, index: int) -> int:
    """Return the start of the next line, or the end of the text."""
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _last_line_end(text: str, node: Node, after: int, column: int) -> int:
    """Return the end of a block value's last line, with the comments inside it."""
    ends = (
        scalar_span(text, scalar)[1]
        for scalar in iter_scalars(node)
        if scalar.start_mark.index >= after
    )
    last = max(ends, default=after)
    stop = _line_end(text, last)
    is_list = not isinstance(node, MappingNode)
    # Aliases and closing brackets may follow; and comments inside the value.
    line = _next_line(text, last)
    while line < len(text):
        row = text[line : _line_end(text, line)]
        indent = len(row) - len(row.lstrip(" "))
        if row.strip() and (
            indent > column or (is_list and indent == column and row[indent] == "-")
        ):
            stop = line + len(row)
        elif not COMMENT_LINE.match(row):
            break
        line = _next_line(text, line)
    return stop


# Texts of values.


def text_at(doc: Document, key_path: KeyPath) -> str:
    """Return the text at a path, dedented to the first column; "" if there is none."""
    if not key_path:
        return doc.text
    block = find_block(doc, key_path)
    if block is None:
        return ""
    return dedent(doc.text[slice(*block.value)], value_column(doc.text, block))


def value_column(text: str, block: Block) -> int:
    """Return the columns by which `text_at` dedents a value."""
    if not block.is_block_value:
        return block.column  # Nothing precedes the first line behind its key.
    rows = text[slice(*block.value)].split("\n")
    first = next((row for row in rows if not COMMENT_LINE.match(row)), "")
    return len(first) - len(first.lstrip(" "))


def dedent(text: str, columns: int) -> str:
    """Return lines without up to this many leading spaces."""
    # Not `splitlines`: other characters that end lines in Unicode are text in YAML.
    return "\n".join(
        row[min(len(row) - len(row.lstrip(" ")), columns) :]
        for row in text.replace("\r\n", "\n").split("\n")
    )


def indent(text: str, columns: int) -> str:
    """Return lines with leading spaces; empty lines stay empty."""
    pad = " " * columns
    return "\n".join(f"{pad}{row}" if row else row for row in text.split("\n"))


def line_of(doc: Document, key_path: KeyPath) -> tuple[int, int] | None:
    """Return the first line of `text_at`, and how many columns it is dedented."""
    block = find_block(doc, key_path)
    if block is None:
        return None
    line = doc.text.count("\n", 0, block.value[0]) + 1
    if block.is_block_value:
        return line, value_column(doc.text, block)
    row = doc.text.rfind("\n", 0, block.value[0]) + 1
    return line, block.value[0] - row


def is_placeable(text: str, name: str) -> bool:
    """Return whether a text is one value and no other document.

    Raises `ConfigInvalid` for invalid YAML, with positions in the named text.
    """
    events = reader.parse_events(text, name)
    starts = [each for each in events if isinstance(each, DocumentStartEvent)]
    ends = [each for each in events if getattr(each, "explicit", False)]
    return len(starts) <= 1 and not ends


def _is_inline(text: str) -> bool:
    """Return whether a value goes behind its key: text, or a list in brackets."""
    if text.startswith(("|", ">")):
        return True
    events = reader.parse_events(text, "")
    is_block = any(
        isinstance(each, CollectionStartEvent) and not each.flow_style
        for each in events[2:3]
    )
    return not is_block and "\n" not in text


def render_entry(head: str, text: str, comment: str = "", column: int = 0) -> str:
    """Return an entry's lines; a block value is indented below its head."""
    text = text.strip("\n")
    if not text.strip():
        return head + comment
    if not _is_inline(text):
        return f"{head}{comment}\n{indent(text, column + INDENT)}"
    first, *rest = text.split("\n")
    has_room = all(not row.strip() or row[0] == " " for row in rest)
    lines = indent("\n".join(rest), column + (0 if has_room else INDENT))
    return f"{head} {first}{comment}" + (f"\n{lines}" if rest else "")


# Edits.


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with edits applied; new lines end as the others do."""
    newline = "\r\n" if "\r\n" in text else "\n"
    pieces, at = [], 0
    for start, stop, new in sorted(edits, key=lambda edit: edit[:2]):
        if start < at:
            raise placement_error("two edits overlap; edit the whole file")
        pieces += [text[at:start], new.replace("\r\n", "\n").replace("\n", newline)]
        at = stop
    return "".join([*pieces, text[at:]])


def put_edit(doc: Document, key_path: KeyPath, text: str) -> Edit:
    """Return the edit that writes a text at a path, whether there is a value or not."""
    block = find_block(doc, key_path)
    if block is None:
        return insert_edit(doc, key_path, text)
    _check_own_lines(block)
    entry = render_entry(block.head, text, block.comment, block.column)
    return (block.start, block.stop, entry)


def insert_edit(doc: Document, key_path: KeyPath, text: str) -> Edit:
    """Return the edit that adds an entry to its map, creating the map if necessary."""
    entry = render_entry(f"{round_trip.dump_key(key_path[-1])}:", text)
    above = find_block(doc, key_path[:-1])
    if len(key_path) > 1 and above is None:
        return insert_edit(doc, key_path[:-1], entry)
    parent = above.node if above else doc.source.root
    if above and not above.is_block_value and _is_empty(parent):
        return put_edit(doc, key_path[:-1], entry)
    is_below = above.is_own_lines and above.is_block_value if above else True
    if not (is_below and isinstance(parent, MappingNode)) or parent.flow_style:
        raise placement_error("the entry cannot be added to a map in braces")
    siblings = [_block(doc.text, k, v, parent) for k, v in parent.value]
    if above is None:
        end = _end_of_content(doc.text)
        return (end, end, f"\n\n{indent(entry, siblings[0].column)}")
    gap = doc.text[siblings[-2].stop : siblings[-1].start] if siblings[1:] else ""
    blank = "\n" if any(not row.strip() for row in gap.splitlines()[1:]) else ""
    end = siblings[-1].stop
    return (end, end, f"\n{blank}{indent(entry, siblings[0].column)}")


def _is_empty(node: Node) -> bool:
    return not node.value or node.tag == "tag:yaml.org,2002:null"


def _end_of_content(text: str) -> int:
    """Return the end of the last line with text or a comment, above a final `...`."""
    content = text.rstrip()
    if content.endswith(("\n...", "\n---")):
        content = content[:-4].rstrip()
    return len(content)


def remove_edit(doc: Document, key_path: KeyPath) -> Edit:
    """Return the edit that removes an entry, but not the comments above it."""
    block, text = find_block(doc, key_path), doc.text
    if block is None:
        raise placement_error("there is no such entry")
    _check_own_lines(block)
    above = find_block(doc, key_path[:-1])
    parent = above.node if above else doc.source.root
    if len(parent.value) == 1:
        if above is None:
            raise placement_error("the file would be empty")
        return put_edit(doc, key_path[:-1], "{}")
    if block.start == 0:
        return (0, _next_line(text, block.stop), "")
    # With the line break above: an entry may be added right behind the last one.
    start, stop = block.start - 1, block.stop
    start -= text[start - 1 : start] == "\r"
    row_above = text.rfind("\n", 0, start) + 1
    below = _next_line(text, stop)
    has_gap_below = not text[below : _line_end(text, below)].strip()
    if row_above > 0 and not text[row_above:start].strip() and has_gap_below:
        start = row_above - 1
        start -= text[start - 1 : start] == "\r"
    return (start, stop, "")


def _check_own_lines(block: Block) -> None:
    if not block.is_own_lines:
        raise placement_error("the entry is in a map in braces")
