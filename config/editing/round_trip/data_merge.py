"""Writes data into a text that says something else, by changing what differs.

What says the same stays as it is written, with its comments and quotes, in the order
of the text.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from config.editing.round_trip import serializer, text_edits, text_lines
from config.editing.round_trip.document import MERGE
from config.editing.round_trip.source_map import Entry, Layout
from config.editing.round_trip.text_edits import Edit, Fragment
from config.loading import placeholders

IDENTITIES = ("name", "username")
"""What an entry of a list is known by."""


def identity(item: Any) -> str | None:
    """Return what an entry of a list is known by; None when it has no name."""
    if isinstance(item, dict):
        for field in IDENTITIES:
            if isinstance(item.get(field), str):
                return f"{field}:{item[field]}"
    return None


def same(one: Any, other: Any) -> bool:
    """Tell whether two values say the same: 1 and 1.0 do, 1 and true do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def gist(value: Any) -> Hashable:
    """Return what two values have in common if, and only if, they say the same."""
    if isinstance(value, dict):
        return ("map", frozenset((key, gist(it)) for key, it in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(gist, value)))
    # 1 is 1.0, and true is neither.
    said: Hashable = ("switch", value) if isinstance(value, bool) else value
    return said


def known_by(item: Any) -> Hashable:
    """Return what an entry of a list is found by among others: its name, or all."""
    name = identity(item)
    return gist(item) if name is None else ("named", name)


def fragment(data: Any, *, is_flow: bool = False) -> Fragment:
    """Return data as a value to be put somewhere."""
    return text_edits.fragment(
        serializer.flow(data) if is_flow else serializer.block(data)
    )


def merge(found: Layout, entry: Entry, old: Any, new: Any) -> list[Edit]:
    """Return the edits after which a place that says `old` says `new`."""
    if same(old, new):
        return []
    value = entry.value
    edits = None
    if value.kind == "map" and isinstance(new, dict) and isinstance(old, dict):
        edits = _merge_map(found, entry, old, new)
    elif value.kind == "list" and isinstance(new, list) and isinstance(old, list):
        edits = _merge_list(found, entry, old, new)
    if edits is not None:
        return edits
    return text_edits.put(found, entry, fragment(new, is_flow=entry.is_in_flow))


def _merge_map(
    found: Layout, entry: Entry, old: dict[str, Any], new: dict[str, Any]
) -> list[Edit] | None:
    """Return the edits, or None where the whole map must be written anew."""
    own = {
        placeholders.show(child.name): child
        for child in entry.value.entries
        if child.name != MERGE
    }
    inherited = old.keys() - own.keys()
    added = [
        key for key in new if key not in own and not same(old.get(key, ...), new[key])
    ]
    dropped = [child for key, child in own.items() if key not in new]
    kept = [child for child in entry.value.entries if child not in dropped]
    if inherited - new.keys() or not kept:
        return None
    if entry.value.is_flow and (added or dropped):
        return None
    if not all(text_lines.is_indent(found.text, child.start) for child in dropped):
        return None
    edits = [edit for child in dropped for edit in text_edits.drop(found, child)]
    for key, child in own.items():
        if key in new:
            edits += merge(found, child, old[key], new[key])
    for key in added:
        piece = fragment(new[key])
        behind = kept[-1] if entry.parent or dropped else None
        edits += text_edits.add(found, entry, key, piece, behind=behind)
    return edits


def _merge_list(
    found: Layout, entry: Entry, old: list[Any], new: list[Any]
) -> list[Edit] | None:
    """Return the edits, or None where the whole list must be written anew."""
    items = entry.value.entries
    if not new or not items:
        return None
    pairs = _paired(old, new)
    if entry.value.is_flow:
        if pairs != list(range(len(old))):
            return None
        return _merge_items(found, items, old, new, pairs)
    if not all(text_lines.is_indent(found.text, item.start) for item in items):
        return None
    kept = [index for index in pairs if index is not None]
    if kept and kept == sorted(kept) and pairs[: len(kept)] == kept:
        edits = _merge_items(found, items, old, new, pairs)
        for index in sorted(set(range(len(old))) - set(kept)):
            edits += text_edits.drop(found, items[index])
        for data in new[len(kept) :]:
            piece, behind = fragment(data), items[kept[-1]]
            edits += text_edits.add(found, entry, None, piece, behind=behind)
        return edits
    return [_rebuilt(found, entry, old, new, pairs)]


def _merge_items(
    found: Layout,
    items: Sequence[Entry],
    old: list[Any],
    new: list[Any],
    pairs: Sequence[int | None],
) -> list[Edit]:
    return [
        edit
        for data, index in zip(new, pairs, strict=True)
        if index is not None
        for edit in merge(found, items[index], old[index], data)
    ]


def _paired(old: list[Any], new: list[Any]) -> list[int | None]:
    """Return which old entry each new one was: by name, by content, by place."""
    waiting: dict[Hashable, list[int]] = {}
    for index in reversed(range(len(old))):
        waiting.setdefault(known_by(old[index]), []).append(index)
    pairs: list[int | None] = []
    for item in new:
        found = waiting.get(known_by(item))
        pairs.append(found.pop() if found else None)
    left = set(range(len(old))).difference(pairs)
    if len(old) == len(new):
        # What changed in place is nobody else's.
        pairs = [
            index
            if found is None and index in left and identity(new[index]) is None
            else found
            for index, found in enumerate(pairs)
        ]
    return pairs


def _rebuilt(
    found: Layout,
    entry: Entry,
    old: list[Any],
    new: list[Any],
    pairs: Sequence[int | None],
) -> Edit:
    """Return the edit that puts a list's entries in another order.

    The comments just above an entry go with it, also where it goes; those of one that
    is gone stay with the next.
    """
    text, items = found.text, entry.value.entries
    column = text_lines.column(text, items[0].start)
    first = _first(found, entry)
    above: dict[int, str] = {}
    orphaned, at = "", first
    for index, item in enumerate(items):
        lead = orphaned + text_lines.plain(
            text[at : text_lines.start(text, item.start)]
        )
        orphaned = "" if index in pairs else lead
        above[index] = lead
        at = text_lines.after(text, text_edits.extent(found, item))
    pieces = [
        text_lines.indented(text_edits.rendered(None, fragment(data)), column)
        if pair is None
        else above[pair].lstrip("\n") + _edited(found, items[pair], old[pair], data)
        for data, pair in zip(new, pairs, strict=True)
    ]
    if orphaned.strip():
        pieces.append(orphaned.strip("\n"))
    gap = "\n\n" if text_edits.is_spaced(found, items) else "\n"
    return (first, text_edits.extent(found, items[-1]), gap.join(pieces))


def _first(found: Layout, entry: Entry) -> int:
    """Return where the first entry of a list begins, with the comments just above."""
    text, dash = found.text, entry.value.entries[0].start
    top, first = text_lines.after(text, entry.mark), text_lines.start(text, dash)
    while first > top:
        above = text_lines.start(text, text_lines.end_before(text, first))
        if not text[above:first].strip().startswith("#"):
            break
        first = above
    return first


def _edited(found: Layout, item: Entry, old: Any, new: Any) -> str:
    """Return an entry's own lines, with edits made."""
    start = text_lines.start(found.text, item.start)
    end = text_edits.extent(found, item)
    edits = merge(found, item, old, new)
    moved = [(a - start, b - start, piece) for a, b, piece in edits]
    return text_lines.plain(text_edits.apply(found.text[start:end], moved))
