"""The content of a file that has another text, or says something else, at a place.

Whatever is put there, all around it says what it said.
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
from config.editing.round_trip.key_paths import Place
from config.editing.round_trip.source_map import Unplaceable
from config.editing.round_trip.text_edits import Edit
from config.errors import ConfigInvalid, EntryUnknown
from config.loading import placeholders
from config.sections import Location, Position, Problem

NOTHING = ("", "null", "~")
"""Texts that say so."""


def misplaced(message: str, code: str = errors.MISPLACED) -> ConfigInvalid:
    """Return what is said of a text or data that cannot be put somewhere."""
    return ConfigInvalid([Problem((), message, code)])


def with_text(doc: Document, place: Place, text: str) -> bytes:
    """Return the content with a text at a place; one that says nothing empties it."""
    entry = key_paths.find(doc, place)
    if entry is not None and _is_asshown(doc, place, text):
        return doc.content
    if text.strip() in NOTHING:
        return doc.content if entry is None else without(doc, place)
    new = _fragment(text, place)
    try:
        if entry is not None:
            edits = text_edits.put(doc.source_map, entry, new)
        else:
            edits = _added(doc, place, new)
        content = doc.encode_text(text_edits.apply(doc.text, edits))
    except Unplaceable as exc:
        raise misplaced(f"'{'.'.join(place)}': {exc}") from exc
    _check_only(doc, place, content, new)
    return secret_restoration.unmasked(content, doc, doc.file)


def _is_asshown(doc: Document, place: Place, text: str) -> bool:
    typed = text.replace("\r\n", "\n").rstrip()
    return shown(doc, place).rstrip() == typed


def shown(doc: Document, place: Place) -> str:
    """Return what is written at a place, without its secrets; "" for nothing."""
    entry = key_paths.find(doc, place)
    if entry is None:
        return ""
    return text_edits.written(doc.source_map, entry, doc.text, secret_masks.edits(doc))


def _fragment(text: str, place: Place) -> text_edits.Fragment:
    """Return a text as a value; raises `ConfigInvalid`, with its own lines."""
    name = ".".join(place)
    try:
        return text_edits.fragment(text)
    except Unplaceable as exc:
        raise misplaced(f"'{name}': {exc}") from exc
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = Position(name, mark.line + 1, mark.column + 1) if mark else None
        says = f"not valid YAML: {placeholders.show(exc.problem or str(exc))}"
        raise ConfigInvalid([Problem((), says, errors.SYNTAX, where)]) from None
    except (YAMLError, ValueError) as exc:
        says = f"'{name}': not valid YAML: {str(exc).partition(chr(10))[0]}"
        raise misplaced(says, errors.SYNTAX) from None


def _added(doc: Document, place: Place, new: text_edits.Fragment) -> list[Edit]:
    parent = doc.source_map.root
    if len(place) > 1:
        above = key_paths.find(doc, place[:-1])
        if above is None:
            entry = text_edits.rendered(place[-1], new)
            return _added(doc, place[:-1], text_edits.fragment(entry))
        parent = doc.resolve_alias(above)
    name = None if parent.value.kind == "list" else place[-1]
    return text_edits.add(doc.source_map, parent, name, new)


def without(doc: Document, place: Place) -> bytes:
    entry = key_paths.find(doc, place)
    if entry is None:
        raise EntryUnknown(f"there is no '{place[-1]}' under {place[0]}:")
    try:
        text = text_edits.apply(doc.text, text_edits.drop(doc.source_map, entry))
    except Unplaceable as exc:
        raise misplaced(f"'{'.'.join(place)}': {exc}") from exc
    content = doc.encode_text(text)
    after = document.of(content, doc.file)
    if key_paths.around(doc, place) != key_paths.around(after, place):
        raise misplaced(f"'{'.'.join(place)}' comes from an anchor used elsewhere, too")
    return content


def _check_only(
    doc: Document, place: Place, content: bytes, new: text_edits.Fragment
) -> None:
    """Refuse a text that says something else where it is put, or elsewhere."""
    after = document.of(content, doc.file)
    if key_paths.around(doc, place) != key_paths.around(after, place):
        raise misplaced(f"'{place[0]}': this text would change what stands around it")
    entry = key_paths.find(after, place)
    if entry is None or entry.value.canonical_value != new.value.canonical_value:
        raise misplaced(f"'{place[0]}': this text would say something else there")


# Data.


def with_data(doc: Document, place: Place, data: Any) -> bytes:
    """Return the content that says something else at a place; None empties it."""
    if data is None:
        return with_text(doc, place, "")
    wanted = secret_restoration.restored(data, place, doc)
    location = key_paths.location(doc, place)
    if location is None:
        return with_text(doc, place, serializer.block(wanted))
    old = secret_masks.at(doc.data, location)
    for edits in ways(doc, location, old, wanted):
        try:
            content = doc.encode_text(text_edits.apply(doc.text, edits()))
            after = document.of(content, doc.file)
        except (ConfigInvalid, Unplaceable):
            continue
        if data_merge.same(
            after.data, secret_restoration.planted(doc.data, location, wanted)
        ):
            return content
    raise misplaced(
        f"'{'.'.join(place)}': anchors (&name) in it are used elsewhere, too; change "
        "the text of the whole file"
    )


def ways(
    doc: Document, location: Location, old: Any, wanted: Any
) -> list[Callable[[], list[Edit]]]:
    """Return ways to write it, the gentlest first: anchors may spoil any."""
    entry = doc.entries[location]
    return [
        lambda: data_merge.merge(doc.source_map, entry, old, wanted),
        lambda: text_edits.put(
            doc.source_map, entry, data_merge.fragment(wanted, is_flow=entry.is_in_flow)
        ),
    ]
