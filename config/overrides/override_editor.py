"""Change the studio's overrides, validated against the whole configuration.

This module never writes the file. It stores each change with its history in one
transaction; this process applies the change at once, the others within a second.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from config import errors, live
from config.errors import ConfigInvalid, EntryChanged, EntryTaken, NothingToReset
from config.loading import resolution
from config.loading.overlays import Overlay, Overlays
from config.models import Override, OverrideAction, OverrideVersion
from config.overrides import entry_texts, entry_validation, overridable_entries
from config.overrides.overridable_entries import OverridableEntry
from config.sections import Config, Problem, Section


def create_entry(section: Section[Any], text: str, *, by: str) -> str:
    """Add an entry and return its name; raises `EntryTaken`."""
    name = entry_validation.read_name(section, text)
    with _lock_overrides() as (config, overlays):
        row = Override.objects.get_or_none(section.key, name)
        if row is not None and row.is_tombstone:
            raise EntryTaken(
                f"{section.noun} '{name}' already exists, but is disabled; reset it, "
                "or edit it at its own URL"
            )
        if row is not None or name in entry_texts.read_texts(
            config.content, section.key
        ):
            raise EntryTaken(
                f"another {section.noun} already has the name '{name}'; choose another "
                "name, or edit that one"
            )
        entry_validation.check_not_reserved(section, name)
        _store(config, overlays, section, name, text, by)
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
    with _lock_overrides() as (config, overlays):
        _, entry = _load_entry(config, section, name, version)
        is_in_force = not entry.is_rejected and entry.label != "tombstoned"
        body = entry_validation.normalize_text(text)
        if is_in_force and entry_validation.normalize_text(entry.text) == body:
            return False
        _store(config, overlays, section, name, text, by)
    return True


def disable_entry(
    section: Section[Any], name: str, *, by: str, version: int | None = None
) -> bool:
    """Disable an entry of the file; remove one that exists only in the studio.

    Raises `ConfigInvalid` with the entries that refer to it. Returns whether it was
    enabled.
    """
    with _lock_overrides() as (config, overlays):
        row, entry = _load_entry(config, section, name, version)
        if row is not None and entry.label == "dynamic":
            _check_removal(config, overlays.without(section.key, name), section, name)
            row.remove(OverrideAction.REMOVED, by=by)
        elif entry.label != "tombstoned":
            tombstone = Overlay(section.key, name, None)
            _check_removal(config, overlays.with_entry(tombstone), section, name)
            Override.objects.store(tombstone, by=by)
        return entry.label != "tombstoned"


def reset_entry(
    section: Section[Any], name: str, *, by: str, version: int | None = None
) -> None:
    """Remove an override, so that the file's entry applies again.

    Raises `NothingToReset` without an override, and for an entry that exists only in
    the studio.
    """
    with _lock_overrides() as (config, overlays):
        row, entry = _load_entry(config, section, name, version)
        if row is None:
            described = overridable_entries.describe(section, name)
            raise NothingToReset(f"{described} has no override to reset")
        if entry.label == "dynamic":
            described = overridable_entries.describe(section, name)
            raise NothingToReset(
                f"{described} is not in the file, so it cannot be reset; delete it "
                "instead"
            )
        _check_change(config, overlays.without(section.key, name), section, name)
        row.remove(OverrideAction.RESET, by=by)


def remove_override(section: Section[Any], name: str, *, by: str) -> str:
    """Reset an entry to the file's, or delete one that exists only in the studio.

    Returns the verb for the audit.
    """
    entry = overridable_entries.get_entry(section, name)
    if entry.label == "dynamic":
        disable_entry(section, name, by=by)
        return "delete"
    reset_entry(section, name, by=by)
    return "reset"


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
        Override.objects.all().lock()
        yield live.current(), Override.objects.load_overlays()


def _load_entry(
    config: Config, section: Section[Any], name: str, version: int | None
) -> tuple[Override | None, OverridableEntry]:
    """Return an entry and its override; raises `EntryChanged` for another version."""
    row = Override.objects.get_or_none(section.key, name)
    if version not in (None, 0 if row is None else row.version):
        last = OverrideVersion.objects.of(section.key, name).first()
        described = overridable_entries.describe(section, name)
        change = last.description if last else "changed"
        raise EntryChanged(
            f"{described} was {change} since you opened it; reload it before you edit "
            "it"
        )
    return row, overridable_entries.entry_from_row(config, section, name, row)


def _store(
    config: Config,
    overlays: Overlays,
    section: Section[Any],
    name: str,
    text: str,
    by: str,
) -> None:
    overlay = Overlay(section.key, name, entry_validation.normalize_text(text))
    _check_change(config, overlays.with_entry(overlay), section, name)
    Override.objects.store(overlay, by=by)


def _check_change(
    config: Config, overlays: Overlays, section: Section[Any], name: str
) -> None:
    """Raise `ConfigInvalid` for new problems of a change, not for existing ones."""
    broken = {(each.section, each.name) for each in config.rejected_overrides}
    broken.discard((section.key, name))
    after = resolution.apply_overlays(
        config.content, config.path, overlays, is_strict=False
    )
    found = after.rejected_overrides
    new = [each for each in found if (each.section, each.name) not in broken]
    # Later rejections that follow from the first are no causes.
    first = [each for each in new if each.rejected_before == new[0].rejected_before]
    if first:
        # Of several that oppose the file together each has all problems.
        problems = dict.fromkeys(problem for each in first for problem in each.problems)
        raise ConfigInvalid(errors.limit_problems(list(problems)))


def _check_removal(
    config: Config, overlays: Overlays, section: Section[Any], name: str
) -> None:
    """Raise `ConfigInvalid` with the entries that use a removed one."""
    try:
        _check_change(config, overlays, section, name)
    except ConfigInvalid as exc:
        uses = errors.describe_uses(exc.problems, section.noun, name)
        raise ConfigInvalid(uses) from None
