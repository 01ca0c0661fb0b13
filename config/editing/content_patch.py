"""New file content with one value replaced, given as text or as data.

Only the lines of the changed entry change. Each new content is parsed again: it must
equal the intended data, or the edit is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode

from config.editing import (
    blocks,
    data_comparison,
    document,
    round_trip,
    secret_masks,
    secret_restoration,
)
from config.editing.blocks import Edit, placement_error
from config.editing.data_comparison import is_same
from config.editing.document import Document, KeyPath
from config.errors import ConfigInvalid, EntryUnknown
from config.loading import placeholders

EMPTY_TEXTS = ("", "null", "~")
"""Texts for an empty value."""
FAILURES = (ConfigInvalid, YAMLError, LookupError, TypeError, ValueError)
"""What an edit raises that does not fit: another way may."""


def put_text(doc: Document, key_path: KeyPath, text: str) -> bytes:
    """Return the content with a text at a path; an empty text clears the value.

    The empty path is the whole file.
    """
    shown = blocks.text_at(secret_masks.mask_document(doc), key_path)
    if not key_path:
        content = doc.encode_text(text.removeprefix(document.BOM))
        is_same_text = text == shown
        return doc.content if is_same_text else _restore(content, doc)
    text = text.replace("\r\n", "\n")
    if text.rstrip() == shown.rstrip():
        return doc.content
    exists = key_path in doc.nodes
    if text.strip() in EMPTY_TEXTS:
        return remove_entry(doc, key_path) if exists else doc.content
    own = _parse_alone(text, key_path)
    try:
        content = _apply(doc, [blocks.put_edit(doc, key_path, text)])
    except ConfigInvalid:
        if own is None:
            raise
        return put_data(doc, key_path, own["value"])
    return _check_placed(doc, key_path, content, own)


def put_texts(doc: Document, texts: Mapping[KeyPath, str]) -> bytes:
    """Return the content with texts at several paths, as `put_text` writes each.

    Usually all are written and checked at once: each check parses the whole file.
    """
    try:
        intended, edits = doc.data, list(_put_edits(doc, texts))
        for key_path, text in texts.items():
            intended = _with_text(intended, key_path, text)
        content = _apply(doc, edits)
        if is_same(document.parse_document(content, doc.file).data, intended):
            return _restore(content, doc)
    except FAILURES:
        pass  # Each on its own has a precise error, and more ways to be written.
    content = doc.content
    for key_path, text in texts.items():
        content = put_text(document.parse_document(content, doc.file), key_path, text)
    return content


def _put_edits(doc: Document, texts: Mapping[KeyPath, str]) -> Iterator[Edit]:
    new_maps: dict[str, list[str]] = {}
    for key_path, text in texts.items():
        key, name = key_path[0], key_path[-1]
        if text.strip() in EMPTY_TEXTS:
            if key_path in doc.nodes:
                yield blocks.remove_edit(doc, key_path)
        elif len(key_path) > 1 and (key,) not in doc.nodes:
            entry = blocks.render_entry(f"{round_trip.dump_key(name)}:", text)
            new_maps.setdefault(key, []).append(entry)
        else:
            yield blocks.put_edit(doc, key_path, text)
    for key, entries in new_maps.items():
        yield blocks.insert_edit(doc, (key,), "\n".join(entries))


def _with_text(data: Any, key_path: KeyPath, text: str) -> Any:
    """Return data with the value of a text at a path; raises `LookupError`."""
    if text.strip() not in EMPTY_TEXTS:
        own = _parse_alone(text, key_path)
        if own is None:
            raise LookupError(key_path)
        return data_comparison.replace_at(data, key_path, own["value"])
    above = data_comparison.value_at(data, key_path[:-1])
    rest = {key: value for key, value in above.items() if key != key_path[-1]}
    return data_comparison.replace_at(data, key_path[:-1], rest)


def _restore(content: bytes, doc: Document) -> bytes:
    return secret_restoration.restore_content(content, doc, doc.file)


def _parse_alone(text: str, key_path: KeyPath) -> dict[str, Any] | None:
    """Return the value of a text by itself; None if it has aliases of the file.

    Raises `ConfigInvalid` with the text's line numbers.
    """
    name = ".".join(key_path)
    if not blocks.is_placeable(text, name):
        raise placement_error(
            f"'{name}': the text must be one value, without '---', '...' and '%'"
        )
    # Blank lines at the end belong to a block of the kind `|+`.
    end = "\n" * max(1, len(text) - len(text.rstrip("\n")))
    alone = blocks.render_entry("value:", text) + end
    try:
        return document.parse_document(alone.encode()).data
    except ConfigInvalid:
        return None


def _apply(doc: Document, edits: Iterable[Edit]) -> bytes:
    return doc.encode_text(blocks.apply_edits(doc.text, edits))


def _check_placed(
    doc: Document, key_path: KeyPath, content: bytes, own: dict[str, Any] | None
) -> bytes:
    """Return a content; refuse it if other values changed, or this one's meaning."""
    after = document.parse_document(content, doc.file)
    new = data_comparison.value_at(after.data, key_path)
    if key_path not in after.nodes or not is_same(own["value"] if own else new, new):
        raise placement_error(
            f"'{key_path[0]}': this text would have another meaning in the file; check "
            "its indentation"
        )
    intended = data_comparison.replace_at(doc.data, key_path, new)
    new_anchors = document.count_anchors(after) - document.count_anchors(doc)
    # Without new anchors, other values change only as users of this entry's own.
    if new_anchors and not is_same(intended, after.data):
        raise placement_error(
            f"'{key_path[0]}': this text would change other values of the file; check "
            "its indentation and anchors"
        )
    return _restore(content, doc)


def remove_entry(doc: Document, key_path: KeyPath) -> bytes:
    """Return the content without an entry; raises `EntryUnknown`."""
    if key_path not in doc.nodes:
        raise EntryUnknown(f"'{key_path[-1]}' does not exist under {key_path[0]}:")
    above = key_path[:-1]
    before = data_comparison.value_at(doc.data, above)
    rest = {key: value for key, value in before.items() if key != key_path[-1]}
    intended = data_comparison.replace_at(doc.data, above, rest)
    if not intended:
        raise placement_error(f"'{key_path[0]}': the file would be empty")
    return _first_valid(
        doc,
        key_path,
        intended,
        lambda: [blocks.remove_edit(doc, key_path)],
        lambda: [*_changes(doc, above, before, rest)],
    )


def put_data(doc: Document, key_path: KeyPath, data: Any) -> bytes:
    """Return the content with data at a path; None clears the value."""
    if not key_path and not isinstance(data, dict):
        raise placement_error(
            "the data must be a map with keys such as 'agents' and 'providers'"
        )
    if data is None:
        return put_text(doc, key_path, "")
    new = secret_restoration.restore_data(data, key_path, doc)
    intended = data_comparison.replace_at(doc.data, key_path, new)
    exists = key_path in doc.nodes
    old = data_comparison.value_at(doc.data, key_path) if exists else None

    def change() -> list[Edit]:
        return [*_changes(doc, key_path, old, new)]

    def put() -> list[Edit]:
        return [blocks.put_edit(doc, key_path, round_trip.dump_block(new))]

    ways = (change, put) if exists else (put, change)
    return _first_valid(doc, key_path, intended, *ways)


def _first_valid(
    doc: Document,
    key_path: KeyPath,
    intended: dict[str, Any],
    *ways: Callable[[], list[Edit]],
) -> bytes:
    """Return the first content that has the intended data."""
    for edits in ways:
        try:
            content = _apply(doc, edits())
            after = document.parse_document(content, doc.file)
        except FAILURES:
            continue
        if is_same(after.data, intended):
            return content
    raise placement_error(
        f"'{'.'.join(key_path)}': this change cannot be written without changing other "
        "values; if its anchors (&name) are also used elsewhere, edit the whole file"
    )


def _changes(doc: Document, key_path: KeyPath, old: Any, new: Any) -> Iterator[Edit]:
    """Yield edits from old to new data: of whole entries, the smallest that differ."""
    if is_same(old, new):
        return
    block = blocks.find_block(doc, key_path)
    is_map = block.is_block_value if block else not key_path
    node = block.node if block else doc.source.root
    kept = isinstance(old, dict) and isinstance(new, dict) and old.keys() & new.keys()
    if not (is_map and kept and isinstance(node, MappingNode)) or node.flow_style:
        yield _changed_block(doc, key_path, old, new)
        return
    for key in old:
        if key not in new:
            yield blocks.remove_edit(doc, (*key_path, key))
    own = {placeholders.reveal(str(pair[0].value)) for pair in node.value}
    for key, value in new.items():
        if key in own:
            yield from _changes(doc, (*key_path, key), old[key], value)
        elif not is_same(old.get(key, ...), value):
            dumped = round_trip.dump_block(value)
            yield blocks.insert_edit(doc, (*key_path, key), dumped)


def _changed_block(doc: Document, key_path: KeyPath, old: Any, new: Any) -> Edit:
    """Return the edit that changes an entry by ruamel.yaml's round trip."""
    block = blocks.find_block(doc, key_path)
    if block is None or not block.is_own_lines:
        if not key_path:
            whole = round_trip.change_text(doc.text, (), old, new)
            return (0, len(doc.text), whole)
        above, last = key_path[:-1], key_path[-1]
        around = data_comparison.value_at(doc.data, above)
        return _changed_block(doc, above, around, {**around, last: new})
    lines = blocks.dedent(doc.text[block.start : block.stop], block.column)
    try:
        changed = round_trip.change_text(f"{lines}\n", key_path[-1:], old, new)
    except YAMLError:
        # The entry has an alias of an anchor elsewhere.
        whole = round_trip.change_text(doc.text, key_path, old, new)
        other = document.parse_document(whole.encode())
        after = blocks.find_block(other, key_path)
        if after is None:
            raise placement_error("the entry is lost") from None
        changed = blocks.dedent(other.text[after.start : after.stop], after.column)
    return (block.start, block.stop, blocks.indent(changed, block.column))
