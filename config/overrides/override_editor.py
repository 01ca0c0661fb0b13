"""Read, validate against the whole configuration, and store the studio's overrides.

This module never writes the file. It stores each change with its history in one
transaction; this process applies the change at once, the others within a second.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from django.db import connection, transaction

from config import errors, live
from config.errors import (
    ConfigInvalid,
    EntryChanged,
    EntryTaken,
    EntryUnknown,
    NothingToReset,
)
from config.loading import resolution
from config.models import Override, OverrideAction, OverrideVersion
from config.overlays import Overlay, Overlays
from config.overrides import entry_texts, entry_validation, override_store
from config.sections import Config, Problem, Section
from config.validation.suggestions import did_you_mean

EntryLabel = Literal["yaml", "dynamic", "override", "tombstoned"]
ACTION_WORDS: dict[str, str] = {
    OverrideAction.SAVED: "changed",
    OverrideAction.TOMBSTONED: "disabled",
    OverrideAction.RESET: "reset",
    OverrideAction.REMOVED: "deleted",
}
"""The verbs for each action."""


@dataclass(frozen=True, slots=True)
class OverridableEntry:
    """An entry of a section: its effective value, its source and its date."""

    section: Section[Any]
    name: str
    label: EntryLabel
    value: Any
    """The effective value; None if the name is disabled or rejected."""
    text: str
    """The entry's text: the studio's if it overrides the entry, else the file's."""
    file_text: str | None
    """The entry's text in the file; None if the file lacks it."""
    is_broken: bool = False
    """Whether the override conflicts with the file."""
    why: str = ""
    """The conflict."""
    version: int = 0
    """The version of the override; 0 without one."""
    changed_at: datetime | None = None
    changed_by: str = ""

    @property
    def is_active(self) -> bool:
        """Whether the name has an effective value."""
        return self.value is not None

    @property
    def data(self) -> dict[str, Any] | None:
        """The effective entry in a form that can be saved: placeholders as written."""
        if self.value is None:
            return None
        text = (self.file_text or "") if self.is_broken else self.text
        found: dict[str, Any] = entry_texts.parse_data(text)
        return found


def get_section(key: str) -> Section[Any]:
    """Return a section whose entries the studio may override; raises `EntryUnknown`."""
    known = resolution.overridable_sections()
    if key not in known:
        raise EntryUnknown(
            f"the entries of '{key}' cannot be overridden, only those of "
            f"{', '.join(sorted(known))}{did_you_mean(key, known)}"
        )
    return known[key]


def audit_action(section: Section[Any], verb: str) -> str:
    """Return the audit event name for a change of an entry."""
    return f"{section.noun.replace(' ', '_')}.{verb}"


def list_entries(section: Section[Any]) -> list[OverridableEntry]:
    """Return all entries of a section, in effective order."""
    config = live.current()
    rows = {row.name: row for row in Override.objects.filter(section=section.key)}
    written = entry_texts.read_texts(config.content, section.key)
    later = sorted(rows.keys() - written.keys(), key=lambda name: rows[name].pk)
    return [
        _build_entry(config, section, name, written.get(name), rows.get(name))
        for name in [*written, *later]
    ]


def get_entry(section: Section[Any], name: str) -> OverridableEntry:
    """Return an entry, also a disabled one; raises `EntryUnknown`."""
    config = live.current()
    row = Override.objects.filter(section=section.key, name=name).first()
    return _get_entry(config, section, name, row)


def list_versions(
    section: Section[Any], name: str, *, before: int | None = None, limit: int = 20
) -> list[OverrideVersion]:
    """Return the studio's changes of an entry, newest first."""
    found = OverrideVersion.objects.filter(section=section.key, name=name)
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


def get_version(section: Section[Any], name: str, id: int) -> OverrideVersion:
    """Return one change of an entry; raises `EntryUnknown`."""
    found = OverrideVersion.objects.filter(section=section.key, name=name, id=id)
    row = found.first()
    if row is None:
        raise EntryUnknown(f"{section.noun} '{name}' has no version {id}")
    return row


def diff_entry(entry: OverridableEntry) -> str:
    """Return an override as a unified diff against the file; "" if they are equal."""
    if entry.label in ("dynamic", "yaml"):
        return ""
    now = "" if entry.label == "tombstoned" else entry.text
    file = live.current().path.name
    return diff_texts(entry.file_text or "", now, file, "studio")


def diff_texts(was: str, now: str, was_in: str, now_in: str) -> str:
    """Return the unified diff of two texts."""
    before, after = was.splitlines(), now.splitlines()
    lines = difflib.unified_diff(before, after, was_in, now_in, lineterm="")
    return "\n".join(lines)


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
        return _get_entry(config, section, name, row)

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
        entry = _get_entry(config, section, name, row)
        if entry.label == "dynamic":
            _check_change(config, overlays.without(section.key, name), section, name)
            _delete_override(section, name, OverrideAction.REMOVED, by)
        elif entry.label != "tombstoned":
            gone = Overlay(section.key, name, None)
            _check_change(config, overlays.with_entry(gone), section, name)
            _store_override(gone, OverrideAction.TOMBSTONED, by)
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
        entry = _get_entry(config, section, name, row)
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
        config, overlay = (
            live.current(),
            Overlay(section.key, own, entry_validation.normalize_text(text)),
        )
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
        if before is not None and _runs_already(before, body):
            return False
        _check_change(config, overlays.with_entry(overlay), section, name)
        _store_override(overlay, OverrideAction.SAVED, by)
        return True


def _runs_already(entry: OverridableEntry, body: str) -> bool:
    if entry.is_broken or entry.label == "tombstoned":
        return False
    return entry_validation.normalize_text(entry.text) == body


def _check_change(
    config: Config, overlays: Overlays, section: Section[Any], name: str
) -> None:
    """Raise `ConfigInvalid` for new problems of a change, not for existing ones."""
    broken = {(each.section, each.name) for each in config.rejected_overrides}
    broken.discard((section.key, name))
    after = resolution.apply_overlays(
        config.content, config.path, overlays, insists=False
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
    made = _record_version(
        overlay.section, overlay.name, action, by, overlay.body or ""
    )
    Override.objects.update_or_create(
        section=overlay.section,
        name=overlay.name,
        defaults={
            "body": overlay.body or "",
            "is_tombstone": overlay.body is None,
            "version": made.pk,
            "changed_at": made.at,
            "changed_by": made.by,
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
    last = list_versions(section, name, limit=1)
    what = (
        "".join(f"{ACTION_WORDS[each.action]} by {each.by}" for each in last)
        or "changed"
    )
    raise EntryChanged(
        f"{section.noun} '{name}' was {what} since you opened it; reload it before you "
        "edit it"
    )


def _get_entry(
    config: Config, section: Section[Any], name: str, row: Override | None
) -> OverridableEntry:
    written = entry_texts.read_texts(config.content, section.key)
    if row is None and name not in written:
        # A configuration built in code has no file content.
        known = config.get(section)
        raise EntryUnknown(
            f"there is no {section.noun} '{name}'{did_you_mean(name, known)}"
        )
    return _build_entry(config, section, name, written.get(name), row)


def _build_entry(
    config: Config,
    section: Section[Any],
    name: str,
    written: str | None,
    row: Override | None,
) -> OverridableEntry:
    value = config.get(section).get(name)
    if row is None:
        return OverridableEntry(section, name, "yaml", value, written or "", written)
    aside = next(
        (
            a
            for a in config.rejected_overrides
            if (a.section, a.name) == (section.key, name)
        ),
        None,
    )
    label: EntryLabel = "override" if written is not None else "dynamic"
    return OverridableEntry(
        section,
        name,
        "tombstoned" if row.is_tombstone else label,
        value,
        (written or "") if row.is_tombstone else row.body,
        written,
        is_broken=aside is not None,
        why="" if aside is None else aside.why,
        version=row.version,
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )
