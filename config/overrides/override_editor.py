"""Change the studio's overrides, validated against the whole configuration.

This module never writes the file. It stores each change with its history in one
transaction; this process applies the change at once, the others within a second.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from config import errors, live
from config.errors import (
    ConfigInvalid,
    EntryChanged,
    EntryTaken,
    NothingToReset,
)
from config.loading import resolution
from config.loading.overlays import Overlay, Overlays
from config.models import Override, OverrideAction, OverrideVersion
from config.overrides import (
    entry_texts,
    entry_validation,
    overridable_entries,
    override_store,
)
from config.overrides.overridable_entries import OverridableEntry
from config.sections import Config, Problem, Section

ACTION_WORDS: dict[str, str] = {
    OverrideAction.SAVED: "changed",
    OverrideAction.TOMBSTONED: "disabled",
    OverrideAction.RESET: "reset",
    OverrideAction.REMOVED: "deleted",
}
"""The verbs for each action."""


def create_entry(section: Section[Any], text: str, *, by: str) -> str:
    """Add an entry and return its name; raises `EntryTaken`."""
    name = entry_validation.read_name(section, text)

    def check(config: Config, row: Override | None) -> None:
        written = entry_texts.read_texts(config.content, section.key)
        if row is not None and row.is_tombstone:
            raise EntryTaken(
                f"{section.noun} '{name}' already exists, but is disabled; reset it, "
                "or edit it at its own URL"
            )
        if row is not None or name in written:
            raise EntryTaken(
                f"another {section.noun} already has the name '{name}'; choose another "
                "name, or edit that one"
            )
        entry_validation.check_not_reserved(section, name)

    _save(section, name, text, by, check)
    return name


def save_entry(
    section: Section[Any], name: str, text: str, *, by: str, version: int | None = None
) -> bool:
    """Store an override of an existing name.

    `version` is the version that the client saw; raises `EntryChanged` if the entry has
    changed since. Raises `ConfigInvalid` with the validator's message. Returns whether
    the text differs from the effective entry; if not, nothing is stored.
    """
    entry_validation.check_name(section, name, text)

    def check(config: Config, row: Override | None) -> OverridableEntry:
        _check_version(section, name, row, version)
        return overridable_entries.entry_from_row(config, section, name, row)

    return _save(section, name, text, by, check)


def disable_entry(
    section: Section[Any], name: str, *, by: str, version: int | None = None
) -> bool:
    """Disable an entry of the file; remove one that exists only in the studio.

    Raises `ConfigInvalid` with the entries that refer to it. Returns whether it was
    enabled.
    """
    with _lock_overrides() as (config, overlays):
        row = Override.objects.filter(section=section.key, name=name).first()
        _check_version(section, name, row, version)
        entry = overridable_entries.entry_from_row(config, section, name, row)
        if entry.label == "dynamic":
            _check_change(config, overlays.without(section.key, name), section, name)
            _delete_override(section, name, OverrideAction.REMOVED, by)
        elif entry.label != "tombstoned":
            tombstone = Overlay(section.key, name, None)
            _check_change(config, overlays.with_entry(tombstone), section, name)
            _store_override(tombstone, OverrideAction.TOMBSTONED, by)
        return entry.label != "tombstoned"


def reset_entry(
    section: Section[Any], name: str, *, by: str, version: int | None = None
) -> None:
    """Remove an override, so that the file's entry applies again.

    Raises `NothingToReset` without an override, and for an entry that exists only in
    the studio.
    """
    with _lock_overrides() as (config, overlays):
        row = Override.objects.filter(section=section.key, name=name).first()
        _check_version(section, name, row, version)
        entry = overridable_entries.entry_from_row(config, section, name, row)
        if entry.label == "yaml":
            raise NothingToReset(f"{section.noun} '{name}' has no override to reset")
        if entry.label == "dynamic":
            raise NothingToReset(
                f"{section.noun} '{name}' is not in the file, so it cannot be reset; "
                "delete it instead"
            )
        _check_change(config, overlays.without(section.key, name), section, name)
        _delete_override(section, name, OverrideAction.RESET, by)


def validate_entry(
    section: Section[Any], text: str, *, name: str | None = None
) -> Sequence[Problem]:
    """Return the result of saving an entry, without saving it.

    Without a name, the entry is new.
    """
    try:
        if name is None:
            own = entry_validation.read_name(section, text)
            entry_validation.check_not_reserved(section, own)
        else:
            own = entry_validation.check_name(section, name, text)
        config = live.current()
        body = entry_validation.normalize_text(text)
        overlay = Overlay(section.key, own, body)
        _check_change(config, config.overlays.with_entry(overlay), section, own)
    except ConfigInvalid as exc:
        return exc.problems
    return ()


# Shared steps of all changes.


@contextmanager
def _lock_overrides() -> Iterator[tuple[Config, Overlays]]:
    """Begin a transaction that excludes other writers of overrides."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            # Each change is validated together with all others, so writers run one at a
            # time. The lock also makes ids visible in ascending order. SQLite has one
            # writer.
            with connection.cursor() as cursor:
                table = connection.ops.quote_name(Override._meta.db_table)
                cursor.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield live.current(), override_store.load_overlays()


def _save(
    section: Section[Any],
    name: str,
    text: str,
    by: str,
    check: Callable[[Config, Override | None], OverridableEntry | None],
) -> bool:
    body = entry_validation.normalize_text(text)
    overlay = Overlay(section.key, name, body)
    with _lock_overrides() as (config, overlays):
        row = Override.objects.filter(section=section.key, name=name).first()
        before = check(config, row)
        if before is not None and _is_unchanged(before, body):
            return False
        _check_change(config, overlays.with_entry(overlay), section, name)
        _store_override(overlay, OverrideAction.SAVED, by)
        return True


def _is_unchanged(entry: OverridableEntry, body: str) -> bool:
    if entry.is_rejected or entry.label == "tombstoned":
        return False
    return entry_validation.normalize_text(entry.text) == body


def _check_change(
    config: Config, overlays: Overlays, section: Section[Any], name: str
) -> None:
    """Raise `ConfigInvalid` for new problems of a change, not for existing ones."""
    broken = {(each.section, each.name) for each in config.rejected_overrides}
    broken.discard((section.key, name))
    after = resolution.apply_overlays(
        config.content, config.path, overlays, is_strict=False
    )
    new = [
        each
        for each in after.rejected_overrides
        if (each.section, each.name) not in broken
    ]
    # Later rejections that follow from the first are no causes.
    first = [each for each in new if each.rejected_before == new[0].rejected_before]
    if first:
        # Of several that oppose the file together each has all problems.
        found = dict.fromkeys(problem for each in first for problem in each.problems)
        raise ConfigInvalid(errors.limit_problems(list(found)))


def _store_override(overlay: Overlay, action: OverrideAction, by: str) -> None:
    version = _record_version(
        overlay.section, overlay.name, action, by, overlay.body or ""
    )
    Override.objects.update_or_create(
        section=overlay.section,
        name=overlay.name,
        defaults={
            "body": overlay.body or "",
            "is_tombstone": overlay.body is None,
            "version": version.pk,
            "changed_at": version.at,
            "changed_by": version.by,
        },
    )


def _delete_override(
    section: Section[Any], name: str, action: OverrideAction, by: str
) -> None:
    Override.objects.filter(section=section.key, name=name).delete()
    _record_version(section.key, name, action, by, "")


def _record_version(
    section: str, name: str, action: OverrideAction, by: str, body: str
) -> OverrideVersion:
    transaction.on_commit(live.apply_overrides, robust=True)
    return OverrideVersion.objects.create(
        section=section,
        name=name,
        action=action,
        body=body,
        at=datetime.now(UTC),
        by=by[:512],
    )


def _check_version(
    section: Section[Any], name: str, row: Override | None, version: int | None
) -> None:
    if version is None or version == (0 if row is None else row.version):
        return
    last = overridable_entries.list_versions(section, name, limit=1)
    what = (
        "".join(f"{ACTION_WORDS[each.action]} by {each.by}" for each in last)
        or "changed"
    )
    raise EntryChanged(
        f"{section.noun} '{name}' was {what} since you opened it; reload it before you "
        "edit it"
    )
