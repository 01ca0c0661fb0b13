"""Rewrite one value of a text; every other character stays the same.

Value texts begin in the first column and have no trailing line break, wherever they are
inserted. Each function returns the edits for the change.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from config.editing.round_trip import document, serializer, text_lines
from config.editing.round_trip.source_map import (
    PatchError,
    SourceEntry,
    SourceMap,
    SourceNode,
    parse_source_map,
)
from config.loading import placeholders

Edit = tuple[int, int, str]
"""(start, end, replacement) for the characters of a text."""

INDENT = 2
MARKER = re.compile(r"^(?:---|\.\.\.)(?:\s|$)|\A%", re.MULTILINE)
PROPERTIES = re.compile(r"(?:[ \t]+[&!][^\s]+)*")
DOCUMENT_END = re.compile(r"^\.\.\.", re.MULTILINE)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits applied; new lines use the text's line breaks."""
    line_end = text_lines.line_break_style(text)
    pieces, at = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        if start < at:
            raise PatchError("two edits change the same characters")
        # Moved text may contain placeholders hidden from the parser.
        shown = placeholders.reveal(new)
        pieces += [text[at:start], shown.replace("\n", line_end)]
        at = end
    return "".join([*pieces, text[at:]])


# Existing values.


def entry_text(
    source_map: SourceMap, entry: SourceEntry, text: str, edits: Iterable[Edit] = ()
) -> str:
    """Return a value's own text, dedented, including the comments in it.

    Edits of the whole text that lie within the value are applied.
    """
    if entry.value.is_empty:
        return ""
    start, end = _lines(source_map, entry)
    own = [
        (a - start, b - start, new) for a, b, new in edits if start <= a and b <= end
    ]
    whole = text_lines.normalize_line_breaks(apply_edits(text[start:end], own))
    return text_lines.dedent(whole, _left_edge(source_map, entry))


def entry_text_start(source_map: SourceMap, entry: SourceEntry) -> tuple[int, int]:
    """Return where `entry_text` begins: its line from 1, and the columns removed."""
    start, _ = _lines(source_map, entry)
    line = len(text_lines.LINE_BREAK.findall(source_map.text, 0, start)) + 1
    return line, _left_edge(source_map, entry)


def _lines(source_map: SourceMap, entry: SourceEntry) -> tuple[int, int]:
    """Return the span of a value, including the comments in it."""
    text, value = source_map.text, entry.value
    if not value.is_block:
        return value.start, value.end
    end = text_lines.trailing_lines_end(text, value.end, _column(source_map, entry))
    if _is_below(source_map, entry):
        return text_lines.next_line_start(text, entry.mark), end
    return value.start, end


def _is_below(source_map: SourceMap, entry: SourceEntry) -> bool:
    """Return whether a value begins on a line below its key."""
    return bool(
        text_lines.LINE_BREAK.search(source_map.text, entry.mark, entry.value.start)
    )


def _column(source_map: SourceMap, entry: SourceEntry) -> int:
    """Return the column of a value's key or dash; -1 for the root value."""
    return text_lines.column(source_map.text, entry.start) if entry.parent else -1


def _left_edge(source_map: SourceMap, entry: SourceEntry) -> int:
    """Return the column where a value's lines begin."""
    if entry.value.is_block:
        return text_lines.column(source_map.text, entry.value.start)
    return max(_column(source_map, entry), 0)


# New values.


@dataclass(frozen=True)
class Fragment:
    """A text to be inserted as a value."""

    text: str
    value: SourceNode

    @property
    def is_inline(self) -> bool:
        """Whether it fits after its key on the same line."""
        return (
            "\n" not in self.text
            and not self.value.is_block
            and self.value.end == len(self.text)
        )

    @property
    def is_literal(self) -> bool:
        """Whether it is a block scalar, whose header follows the key."""
        return self.value.style in ("|", ">") and self.value.properties_start == 0


def parse_fragment(text: str) -> Fragment:
    """Return a text as a value; raises `PatchError` or `YAMLError`."""
    trimmed = _trim(text_lines.normalize_line_breaks(text))
    source_map = parse_source_map(placeholders.hide(trimmed))
    if MARKER.search(trimmed):
        raise PatchError("a value cannot contain a '---', '...' or '%' line")
    return Fragment(trimmed, source_map.root.value)


def _trim(text: str) -> str:
    """Return a text dedented and without surrounding empty lines."""
    rows = text.removeprefix("\ufeff").rstrip().split("\n")
    while len(rows) > 1 and not rows[0].strip():
        rows = rows[1:]
    edges = [len(row) - len(row.lstrip(" ")) for row in rows if row.strip()]
    return text_lines.dedent("\n".join(rows), min(edges, default=0))


def replace_value(
    source_map: SourceMap, entry: SourceEntry, new: Fragment
) -> list[Edit]:
    """Return the edits that replace an entry's value."""
    if entry.is_in_flow:
        return [_replacement(entry, _as_flow(new))]
    if entry.value.is_block or _is_below(source_map, entry):
        return _replace_lines(source_map, entry, new)
    return _replace_inline(source_map, entry, new)


def _replacement(entry: SourceEntry, text: str) -> Edit:
    value = entry.value
    space = (
        " " if text and value.start == entry.mark and not _has_no_marker(entry) else ""
    )
    return (value.start, value.end, space + text)


def _has_no_marker(entry: SourceEntry) -> bool:
    """Return whether a value has neither a key nor a dash before it."""
    return entry.key is None and entry.start == entry.mark


def _as_flow(new: Fragment) -> str:
    if new.is_inline:
        return new.text
    if _has_aliases(new.value):
        raise PatchError("an alias cannot be inserted between brackets")
    return serializer.dump_flow(_read(new.text))


def _read(text: str) -> Any:
    return document.parse_document(
        f"value:\n{text_lines.indent(text, 2)}\n".encode()
    ).data["value"]


def _has_aliases(value: SourceNode) -> bool:
    return value.kind == "alias" or any(_has_aliases(e.value) for e in value.entries)


def _replace_inline(
    source_map: SourceMap, entry: SourceEntry, new: Fragment
) -> list[Edit]:
    """Replace a value that follows its key on the same line."""
    text, value = source_map.text, entry.value
    if new.is_inline or new.is_literal:
        return [_replacement(entry, _indent_hanging(source_map, entry, new))]
    if entry.key is None:
        body = text_lines.indent(
            new.text, _column(source_map, entry) + INDENT, hanging=True
        )
        space = " " if value.start == entry.mark else ""
        return [(value.start, value.end, space + body)]
    insert_at = text_lines.line_end(text, value.end)
    body = text_lines.indent(new.text, _column(source_map, entry) + INDENT)
    start = value.start
    if not text[value.end : insert_at].strip():
        insert_at = value.end
        start -= len(text[entry.mark : start]) if value.properties_start == start else 0
    return [(start, value.end, ""), (insert_at, insert_at, f"\n{body}")]


def _indent_hanging(source_map: SourceMap, entry: SourceEntry, new: Fragment) -> str:
    columns = max(_column(source_map, entry), 0)
    if new.is_literal and not _is_indented(new.text):
        columns += INDENT
    return text_lines.indent(new.text, columns, hanging=True)


def _is_indented(text: str) -> bool:
    """Return whether the lines below the first are indented further."""
    rows = [row for row in text.split("\n")[1:] if row.strip()]
    return bool(rows) and all(row.startswith(" ") for row in rows)


def _replace_lines(
    source_map: SourceMap, entry: SourceEntry, new: Fragment
) -> list[Edit]:
    """Replace a value on its own lines, or one that begins at a dash."""
    text, value = source_map.text, entry.value
    column = _column(source_map, entry)
    edge = _left_edge(source_map, entry) if value.is_block else column + INDENT
    if edge <= column and not _is_block_list(new.value):
        edge = column + INDENT
    end = text_lines.trailing_lines_end(text, value.end, column)
    if not _is_below(source_map, entry):
        return [(value.start, end, text_lines.indent(new.text, edge, hanging=True))]
    below = text_lines.next_line_start(text, entry.mark)
    if not (new.is_inline or new.is_literal):
        return [(below, end, text_lines.indent(new.text, edge))]
    key_line_end = text_lines.line_end(text, entry.mark)
    start = entry.mark
    if value.properties_start < key_line_end:  # An anchor stays where it is.
        properties = PROPERTIES.match(text, start)
        start = properties.end() if properties else start
    if new.is_literal:
        return [(start, end, f" {_indent_hanging(source_map, entry, new)}")]
    return [(start, start, f" {new.text}".rstrip()), (key_line_end, end, "")]


def _is_block_list(value: SourceNode) -> bool:
    return value.is_block and value.kind == "list"


def remove_entry(source_map: SourceMap, entry: SourceEntry) -> list[Edit]:
    """Return the edits that remove an entry and nothing around it."""
    parent = entry.parent
    if parent is None:
        raise PatchError("the whole file cannot be removed")
    siblings = parent.value.entries
    if len(siblings) == 1 and parent.parent is None:
        raise PatchError("the file would be empty")
    if len(siblings) == 1:
        empty = "{}" if parent.value.kind == "map" else "[]"
        return replace_value(source_map, parent, parse_fragment(empty))
    index = siblings.index(entry)
    if entry.is_in_flow:
        if index + 1 < len(siblings):
            return [(entry.start, siblings[index + 1].start, "")]
        return [(siblings[index - 1].value.end, entry.value.end, "")]
    text = source_map.text
    mark = text[text_lines.line_start(text, entry.start) : entry.start].strip(" ")
    if mark not in ("", "?"):
        return [(entry.start, siblings[index + 1].start, "")]
    start, end = text_lines.line_start(text, entry.start), entry_end(source_map, entry)
    if start == 0:
        return [(0, text_lines.next_line_start(text, end), "")]
    # Includes the preceding line break: another edit may append right after it.
    first = text_lines.previous_line_end(text, start)
    if _owns_trailing_breaks(text, siblings[:index]):
        end = _end_of_blank_lines(text, end)
    elif _is_between_blank_lines(text, first, end):
        first = text_lines.previous_line_end(text, text_lines.line_start(text, first))
    return [(first, end, "")]


def _is_between_blank_lines(text: str, first: int, end: int) -> bool:
    """Return whether there is an empty line above and below some lines."""
    above = text_lines.line_start(text, first)
    is_last = text_lines.next_line_start(text, end) == len(text)
    return (
        above > 0
        and not text[above:first].strip()
        and (is_last or _end_of_blank_lines(text, end) > end)
    )


def _end_of_blank_lines(text: str, end: int) -> int:
    """Return the end of the empty lines below a line."""
    while (below := text_lines.next_line_start(text, end)) < len(text):
        stop = text_lines.line_end(text, below)
        if text[below:stop].strip():
            break
        end = stop
    return end


def _owns_trailing_breaks(text: str, entries: Sequence[SourceEntry]) -> bool:
    """Return whether the empty lines below the last of some entries belong to it."""
    while entries and entries[-1].value.entries:
        entries = entries[-1].value.entries
    value = entries[-1].value if entries else None
    if value is None or value.style not in ("|", ">"):
        return False
    return "+" in text[value.start : value.start + 3]


def entry_end(source_map: SourceMap, entry: SourceEntry) -> int:
    """Return the end of an entry's last line, including the comments in it."""
    return text_lines.trailing_lines_end(
        source_map.text, entry.value.end, _column(source_map, entry)
    )


def insert_entry(
    source_map: SourceMap,
    parent: SourceEntry,
    name: str | None,
    new: Fragment,
    *,
    after: SourceEntry | None = None,
) -> list[Edit]:
    """Return the edits that add an entry to a map or, without a name, to a list.

    The entry is appended, or placed after another one.
    """
    value = parent.value
    if value.is_flow and value.entries:
        last = value.entries[-1].value.end
        key = f"{serializer.dump_key(name)}: " if name is not None else ""
        return [(last, last, f", {key}{_as_flow(new)}")]
    entry = render_entry(name, new)
    if not value.is_block:
        return replace_value(source_map, parent, parse_fragment(entry))
    last_entry = after or value.entries[-1]
    column = text_lines.column(source_map.text, value.entries[0].start)
    body = text_lines.indent(entry, column)
    if parent.parent is None and after is None:
        return [_append_edit(source_map, last_entry, body)]
    gap = "\n" if has_blank_lines_between(source_map, value.entries) else ""
    end = entry_end(source_map, last_entry)
    return [(end, end, f"\n{gap}{body}")]


def render_entry(name: str | None, new: Fragment) -> str:
    """Return an entry's text: a key or dash, and the value."""
    if name is None:
        return f"- {text_lines.indent(new.text, INDENT, hanging=True)}"
    key = f"{serializer.dump_key(name)}:"
    if new.is_inline:
        return f"{key} {new.text}" if new.text else key
    if new.is_literal:
        columns = 0 if _is_indented(new.text) else INDENT
        return f"{key} {text_lines.indent(new.text, columns, hanging=True)}"
    return f"{key}\n{text_lines.indent(new.text, INDENT)}"


def has_blank_lines_between(
    source_map: SourceMap, entries: Sequence[SourceEntry]
) -> bool:
    """Return whether there are empty lines between entries."""
    if len(entries) < 2:
        return False
    between = source_map.text[entries[-2].value.end : entries[-1].start]
    return any(
        not row.strip()
        for row in text_lines.normalize_line_breaks(between).split("\n")[1:-1]
    )


def _append_edit(source_map: SourceMap, last: SourceEntry, body: str) -> Edit:
    text = source_map.text
    end = entry_end(source_map, last)
    if not DOCUMENT_END.search(text_lines.normalize_line_breaks(text[end:])):
        end = text_lines.line_end(text, len(text.rstrip()))
    return (end, end, f"\n\n{body}")
