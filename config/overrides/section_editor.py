"""Store the studio's edits of sections as overrides, for all processes.

The studio edits the text of the file with the overrides in it, as it edits the file on
one machine (`config/editing/file_editor.py`); what differs afterwards is stored.
"""

from collections.abc import Iterator

from django.db import transaction

from config import errors, live, sections
from config.editing import (
    blocks,
    config_file,
    data_comparison,
    document,
    file_editor,
    secret_masks,
    section_overlays,
)
from config.editing.blocks import placement_error
from config.editing.config_file import ConfigFile
from config.editing.document import Document, KeyPath
from config.editing.file_editor import Change, WriteRecorder
from config.editing.secret_masks import MASK
from config.errors import ConfigInvalid, SectionReadOnly
from config.loading.overlays import Overlay
from config.models import Override, OverrideAction
from config.overrides.entry_validation import MAX_NAME_LENGTH


def change_sections(
    change: Change, *, version: str | None, record: WriteRecorder, by: str
) -> ConfigFile:
    """Validate and store a change; return the file with all overrides after it.

    Raises as `file_editor.change_file` does, and `SectionReadOnly` for a section that
    the database cannot store.
    """
    with transaction.atomic():
        Override.objects.all().lock()
        before = config_file.read_file()
        after = file_editor.apply_change(change, before, version)
        if after == before:
            return before

        def write() -> ConfigFile:
            _store(before.content, after.content, by)
            return after

        return record(write)


def _store(before: bytes, after: bytes, by: str) -> None:
    old, new = document.parse_document(before), document.parse_document(after)
    file = live.current().content
    known = document.parse_document(file).nodes
    for path in _changed_paths(old, new):
        overlay = _overlay_of(new, path)
        row = Override.objects.get_or_none(overlay.section, overlay.name)
        if overlay.body is not None or path in known:
            _check_restorable(file, new, path, overlay)
            Override.objects.store(overlay, by=by)
        elif row is not None:
            row.remove(OverrideAction.REMOVED, by=by)


def _changed_paths(old: Document, new: Document) -> Iterator[KeyPath]:
    """Yield the paths of the overrides that a change needs.

    Raises `SectionReadOnly` for a section that has no overrides of this kind.
    """
    for key in {**old.data, **new.data}:
        for path in _override_paths(key, old, new):
            if _text_at(old, path) == _text_at(new, path):
                continue
            section = sections.registered_sections()[key]
            if section.is_overridable:
                raise SectionReadOnly(
                    f"the list '{key}' of the file cannot be edited here; edit, add or "
                    f"disable each {section.noun} on its own page"
                )
            if section.is_per_machine:
                raise SectionReadOnly(
                    f"'{key}' describes one machine, so it can be changed only in the "
                    "file of each machine; edit the files, and restart"
                )
            yield path


def _override_paths(key: str, old: Document, new: Document) -> list[KeyPath]:
    if not sections.registered_sections()[key].has_named_entries:
        return [(key,)]
    names = {**(old.data.get(key) or {}), **(new.data.get(key) or {})}
    return [(key, name) for name in names]


def _text_at(doc: Document, path: KeyPath) -> str | None:
    return blocks.text_at(doc, path) if path in doc.nodes else None


def _overlay_of(new: Document, path: KeyPath) -> Overlay:
    """Return the override of a part; its secrets are masked."""
    if len(path[-1]) > MAX_NAME_LENGTH:
        limit = f"a name may have at most {MAX_NAME_LENGTH} characters"
        raise placement_error(f"'{path[0]}': {limit}", errors.WRONG_VALUE)
    text = _text_at(secret_masks.mask_document(new), path)
    if text is not None and not text.strip():
        # An empty text removes an entry, but `local:` alone is a whole one.
        text = "{}" if len(path) > 1 else None
    return Overlay(path[0], path[-1], text)


def _check_restorable(
    file: bytes, new: Document, path: KeyPath, overlay: Overlay
) -> None:
    """Raise `ConfigInvalid` for a text that has another meaning when it is merged."""
    if overlay.body is None:
        return
    wanted = data_comparison.value_at(new.data, path)
    try:
        merged = document.parse_document(section_overlays.merge(file, [overlay]))
        stored = data_comparison.value_at(merged.data, path)
    except (ConfigInvalid, LookupError):
        is_same = False
    else:
        is_same = data_comparison.is_same(stored or {}, wanted or {})
    if is_same:
        return
    name = ".".join(path)
    if MASK in overlay.body:
        message = "secrets are not stored in the database; write a placeholder such as"
        message += " ${NAME}, which each process reads from its environment"
        raise placement_error(f"'{name}': {message}", errors.MASKED)
    raise placement_error(
        f"'{name}': the text needs an anchor (&name) outside of it; write it without"
    )
