"""Write data into a YAML text by changing only the differences.

Equal values keep their text, comments, quotes and order.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from config.editing.round_trip import serializer, text_edits, text_lines
from config.editing.round_trip.source_map import MERGE, SourceEntry, SourceMap
from config.editing.round_trip.text_edits import Edit, Fragment
from config.loading import placeholders

IDENTITIES = ("name", "username")
"""Fields that identify a list entry."""


def identity_of(item: Any) -> str | None:
    """Return a list entry's identity; None if it has no name."""
    if isinstance(item, dict):
        for field in IDENTITIES:
            if isinstance(item.get(field), str):
                return f"{field}:{item[field]}"
    return None


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            is_same(one[k], other[k]) for k in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def canonical_key(value: Any) -> Hashable:
    """Return a key that is equal for two values exactly if `is_same` holds."""
    if isinstance(value, dict):
        return ("map", frozenset((key, canonical_key(it)) for key, it in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(canonical_key, value)))
    # 1 equals 1.0, and true equals neither.
    key: Hashable = ("switch", value) if isinstance(value, bool) else value
    return key


def matching_key(item: Any) -> Hashable:
    """Return the key to match a list entry by: its name, or the whole value."""
    name = identity_of(item)
    return canonical_key(item) if name is None else ("named", name)


def build_fragment(data: Any, *, is_flow: bool = False) -> Fragment:
    """Return data as YAML text that can be inserted."""
    return text_edits.parse_fragment(
        serializer.dump_flow(data) if is_flow else serializer.dump_block(data)
    )


def merge_edits(
    source_map: SourceMap, entry: SourceEntry, old: Any, new: Any
) -> list[Edit]:
    """Return the edits that change an entry's value from `old` to `new`."""
    if is_same(old, new):
        return []
    value = entry.value
    edits = None
    if value.kind == "map" and isinstance(new, dict) and isinstance(old, dict):
        edits = _merge_map(source_map, entry, old, new)
    elif value.kind == "list" and isinstance(new, list) and isinstance(old, list):
        edits = _merge_list(source_map, entry, old, new)
    if edits is not None:
        return edits
    return text_edits.replace_value(
        source_map, entry, build_fragment(new, is_flow=entry.is_in_flow)
    )


def _merge_map(
    source_map: SourceMap, entry: SourceEntry, old: dict[str, Any], new: dict[str, Any]
) -> list[Edit] | None:
    """Return the edits, or None if the whole map must be rewritten."""
    own = {
        placeholders.reveal(child.name): child
        for child in entry.value.entries
        if child.name != MERGE
    }
    inherited = old.keys() - own.keys()
    added = [
        key
        for key in new
        if key not in own and not is_same(old.get(key, ...), new[key])
    ]
    dropped = [child for key, child in own.items() if key not in new]
    remaining = [child for child in entry.value.entries if child not in dropped]
    if inherited - new.keys() or not remaining:
        return None
    if entry.value.is_flow and (added or dropped):
        return None
    if not all(text_lines.is_indent(source_map.text, child.start) for child in dropped):
        return None
    edits = [
        edit for child in dropped for edit in text_edits.remove_entry(source_map, child)
    ]
    for key, child in own.items():
        if key in new:
            edits += merge_edits(source_map, child, old[key], new[key])
    for key in added:
        piece = build_fragment(new[key])
        after = remaining[-1] if entry.parent or dropped else None
        edits += text_edits.insert_entry(source_map, entry, key, piece, after=after)
    return edits


def _merge_list(
    source_map: SourceMap, entry: SourceEntry, old: list[Any], new: list[Any]
) -> list[Edit] | None:
    """Return the edits, or None if the whole list must be rewritten."""
    items = entry.value.entries
    if not new or not items:
        return None
    pairs = _match_entries(old, new)
    if entry.value.is_flow:
        if pairs != list(range(len(old))):
            return None
        return _merge_items(source_map, items, old, new, pairs)
    if not all(text_lines.is_indent(source_map.text, item.start) for item in items):
        return None
    matched = [index for index in pairs if index is not None]
    if matched and matched == sorted(matched) and pairs[: len(matched)] == matched:
        edits = _merge_items(source_map, items, old, new, pairs)
        for index in sorted(set(range(len(old))) - set(matched)):
            edits += text_edits.remove_entry(source_map, items[index])
        for data in new[len(matched) :]:
            piece, after = build_fragment(data), items[matched[-1]]
            edits += text_edits.insert_entry(
                source_map, entry, None, piece, after=after
            )
        return edits
    return [_reorder_edit(source_map, entry, old, new, pairs)]


def _merge_items(
    source_map: SourceMap,
    items: Sequence[SourceEntry],
    old: list[Any],
    new: list[Any],
    pairs: Sequence[int | None],
) -> list[Edit]:
    return [
        edit
        for data, index in zip(new, pairs, strict=True)
        if index is not None
        for edit in merge_edits(source_map, items[index], old[index], data)
    ]


def _match_entries(old: list[Any], new: list[Any]) -> list[int | None]:
    """Match each new entry to an old one: by name, by content, by index."""
    indexes_by_key: dict[Hashable, list[int]] = {}
    for index in reversed(range(len(old))):
        indexes_by_key.setdefault(matching_key(old[index]), []).append(index)
    pairs: list[int | None] = []
    for item in new:
        indexes = indexes_by_key.get(matching_key(item))
        pairs.append(indexes.pop() if indexes else None)
    unmatched = set(range(len(old))).difference(pairs)
    if len(old) == len(new):
        # An entry that changed in place matches no other entry.
        pairs = [
            index
            if match is None and index in unmatched and identity_of(new[index]) is None
            else match
            for index, match in enumerate(pairs)
        ]
    return pairs


def _reorder_edit(
    source_map: SourceMap,
    entry: SourceEntry,
    old: list[Any],
    new: list[Any],
    pairs: Sequence[int | None],
) -> Edit:
    """Return the edit that reorders a list's entries.

    The comments just above an entry move with it; those of a removed entry stay with
    the next one.
    """
    text, items = source_map.text, entry.value.entries
    column = text_lines.column(text, items[0].start)
    first = _first_entry_start(source_map, entry)
    above: dict[int, str] = {}
    orphaned, at = "", first
    for index, item in enumerate(items):
        comments_above = orphaned + text_lines.normalize_line_breaks(
            text[at : text_lines.line_start(text, item.start)]
        )
        orphaned = "" if index in pairs else comments_above
        above[index] = comments_above
        at = text_lines.next_line_start(text, text_edits.entry_end(source_map, item))
    pieces = [
        text_lines.indent(text_edits.render_entry(None, build_fragment(data)), column)
        if pair is None
        else above[pair].lstrip("\n")
        + _edited_lines(source_map, items[pair], old[pair], data)
        for data, pair in zip(new, pairs, strict=True)
    ]
    if orphaned.strip():
        pieces.append(orphaned.strip("\n"))
    gap = "\n\n" if text_edits.has_blank_lines_between(source_map, items) else "\n"
    return (first, text_edits.entry_end(source_map, items[-1]), gap.join(pieces))


def _first_entry_start(source_map: SourceMap, entry: SourceEntry) -> int:
    """Return the start of a list's first entry, with the comments just above it."""
    text, dash = source_map.text, entry.value.entries[0].start
    top, first = (
        text_lines.next_line_start(text, entry.mark),
        text_lines.line_start(text, dash),
    )
    while first > top:
        above = text_lines.line_start(text, text_lines.previous_line_end(text, first))
        if not text[above:first].strip().startswith("#"):
            break
        first = above
    return first


def _edited_lines(source_map: SourceMap, item: SourceEntry, old: Any, new: Any) -> str:
    """Return an entry's own lines with the edits applied."""
    start = text_lines.line_start(source_map.text, item.start)
    end = text_edits.entry_end(source_map, item)
    edits = merge_edits(source_map, item, old, new)
    own_edits = [(a - start, b - start, piece) for a, b, piece in edits]
    return text_lines.normalize_line_breaks(
        text_edits.apply_edits(source_map.text[start:end], own_edits)
    )
