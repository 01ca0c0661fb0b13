"""New file content with one value replaced, given as text or as data.

The meaning of everything around the value stays the same.
"""

from collections.abc import Callable
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from config import errors
from config.editing import secret_masks, secret_restoration
from config.editing.round_trip import (
    data_merge,
    document,
    key_paths,
    serializer,
    text_edits,
)
from config.editing.round_trip.document import Document
from config.editing.round_trip.key_paths import KeyPath
from config.editing.round_trip.source_map import PatchError
from config.editing.round_trip.text_edits import Edit
from config.errors import ConfigInvalid, EntryUnknown
from config.loading import placeholders
from config.sections import Location, Position, Problem

EMPTY_TEXTS = ("", "null", "~")
"""Texts for an empty value."""


def placement_error(message: str, code: str = errors.MISPLACED) -> ConfigInvalid:
    """Return the error for text or data that cannot be placed there."""
    return ConfigInvalid([Problem((), message, code)])


def put_text(doc: Document, key_path: KeyPath, text: str) -> bytes:
    """Return the content with a text at a path; an empty text clears the value."""
    entry = key_paths.find_entry(doc, key_path)
    if entry is not None and _is_unchanged(doc, key_path, text):
        return doc.content
    if text.strip() in EMPTY_TEXTS:
        return doc.content if entry is None else remove_entry(doc, key_path)
    new = _parse_fragment(text, key_path)
    try:
        if entry is not None:
            edits = text_edits.replace_value(doc.source_map, entry, new)
        else:
            edits = _insertion_edits(doc, key_path, new)
        content = doc.encode_text(text_edits.apply_edits(doc.text, edits))
    except PatchError as exc:
        raise placement_error(f"'{'.'.join(key_path)}': {exc}") from exc
    _check_isolated(doc, key_path, content, new)
    return secret_restoration.restore_content(content, doc, doc.file)


def _is_unchanged(doc: Document, key_path: KeyPath, text: str) -> bool:
    submitted = text.replace("\r\n", "\n").rstrip()
    return masked_text(doc, key_path).rstrip() == submitted


def masked_text(doc: Document, key_path: KeyPath) -> str:
    """Return the text at a path with its secrets masked; "" if there is none."""
    entry = key_paths.find_entry(doc, key_path)
    if entry is None:
        return ""
    return text_edits.entry_text(
        doc.source_map, entry, doc.text, secret_masks.mask_edits(doc)
    )


def _parse_fragment(text: str, key_path: KeyPath) -> text_edits.Fragment:
    """Return a text as a value; raises `ConfigInvalid` with the text's line numbers."""
    name = ".".join(key_path)
    try:
        return text_edits.parse_fragment(text)
    except PatchError as exc:
        raise placement_error(f"'{name}': {exc}") from exc
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        position = Position(name, mark.line + 1, mark.column + 1) if mark else None
        message = f"not valid YAML: {placeholders.reveal(exc.problem or str(exc))}"
        raise ConfigInvalid([Problem((), message, errors.SYNTAX, position)]) from None
    except (YAMLError, ValueError) as exc:
        message = f"'{name}': not valid YAML: {str(exc).partition(chr(10))[0]}"
        raise placement_error(message, errors.SYNTAX) from None


def _insertion_edits(
    doc: Document, key_path: KeyPath, new: text_edits.Fragment
) -> list[Edit]:
    parent = doc.source_map.root
    if len(key_path) > 1:
        above = key_paths.find_entry(doc, key_path[:-1])
        if above is None:
            entry = text_edits.render_entry(key_path[-1], new)
            return _insertion_edits(
                doc, key_path[:-1], text_edits.parse_fragment(entry)
            )
        parent = doc.resolve_alias(above)
    name = None if parent.value.kind == "list" else key_path[-1]
    return text_edits.insert_entry(doc.source_map, parent, name, new)


def remove_entry(doc: Document, key_path: KeyPath) -> bytes:
    entry = key_paths.find_entry(doc, key_path)
    if entry is None:
        raise EntryUnknown(f"'{key_path[-1]}' does not exist under {key_path[0]}:")
    try:
        text = text_edits.apply_edits(
            doc.text, text_edits.remove_entry(doc.source_map, entry)
        )
    except PatchError as exc:
        raise placement_error(f"'{'.'.join(key_path)}': {exc}") from exc
    content = doc.encode_text(text)
    after = document.parse_document(content, doc.file)
    if key_paths.siblings_by_level(doc, key_path) != key_paths.siblings_by_level(
        after, key_path
    ):
        raise placement_error(
            f"'{'.'.join(key_path)}' comes from an anchor (&name) that is also used "
            "elsewhere; edit the whole file"
        )
    return content


def _check_isolated(
    doc: Document, key_path: KeyPath, content: bytes, new: text_edits.Fragment
) -> None:
    """Refuse a text whose meaning changes here, or that changes other values."""
    after = document.parse_document(content, doc.file)
    if key_paths.siblings_by_level(doc, key_path) != key_paths.siblings_by_level(
        after, key_path
    ):
        raise placement_error(
            f"'{key_path[0]}': this text would change other values of the file; "
            "check its indentation and anchors"
        )
    entry = key_paths.find_entry(after, key_path)
    if entry is None or entry.value.canonical_value != new.value.canonical_value:
        raise placement_error(
            f"'{key_path[0]}': this text would have another meaning in the file; check "
            "its indentation"
        )


# Data.


def put_data(doc: Document, key_path: KeyPath, data: Any) -> bytes:
    """Return the content with data at a path; None clears the value."""
    if data is None:
        return put_text(doc, key_path, "")
    new = secret_restoration.restore_data(data, key_path, doc)
    location = key_paths.to_location(doc, key_path)
    if location is None:
        return put_text(doc, key_path, serializer.dump_block(new))
    old = secret_masks.value_at(doc.data, location)
    for edits in edit_strategies(doc, location, old, new):
        try:
            content = doc.encode_text(text_edits.apply_edits(doc.text, edits()))
            after = document.parse_document(content, doc.file)
        except (ConfigInvalid, PatchError):
            continue
        if data_merge.is_same(
            after.data, secret_restoration.replace_at(doc.data, location, new)
        ):
            return content
    raise placement_error(
        f"'{'.'.join(key_path)}': its anchors (&name) are also used elsewhere; "
        "edit the whole file"
    )


def edit_strategies(
    doc: Document, location: Location, old: Any, new: Any
) -> list[Callable[[], list[Edit]]]:
    """Return ways to write the value, smallest edit first: anchors may break any."""
    entry = doc.entries[location]
    return [
        lambda: data_merge.merge_edits(doc.source_map, entry, old, new),
        lambda: text_edits.replace_value(
            doc.source_map,
            entry,
            data_merge.build_fragment(new, is_flow=entry.is_in_flow),
        ),
    ]
