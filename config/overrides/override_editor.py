"""What the studio says over the file: read, judged against the whole, written.

Nothing here touches the file. Each change is stored with its history in one
transaction; this process adopts it at once, the others within a second.
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
"""How it is told what somebody did."""


@dataclass(frozen=True, slots=True)
class OverridableEntry:
    """An entry of a section: what runs, who says so, and since when."""

    section: Section[Any]
    name: str
    label: EntryLabel
    value: Any
    """What runs under this name; None if nothing does."""
    text: str
    """As it is written: by the studio if it says anything, else in the file."""
    file_text: str | None
    """As the file has it; None where it does not."""
    is_broken: bool = False
    """Whether the studio says something that does not fit the file."""
    why: str = ""
    """What does not fit."""
    version: int = 0
    """Of what the studio says; 0 where it says nothing."""
    changed_at: datetime | None = None
    changed_by: str = ""

    @property
    def is_active(self) -> bool:
        """Whether anything runs under this name."""
        return self.value is not None

    @property
    def data(self) -> dict[str, Any] | None:
        """What runs, as it could be saved: placeholders are as they were written."""
        if self.value is None:
            return None
        text = (self.file_text or "") if self.is_broken else self.text
        found: dict[str, Any] = entry_texts.parse_data(text)
        return found


def get_section(key: str) -> Section[Any]:
    """Return a section whose entries the studio may change; raises `EntryUnknown`."""
    known = resolution.overridable_sections()
    if key not in known:
        raise EntryUnknown(
            f"nothing under '{key}' can be changed here, only "
            f"{', '.join(sorted(known))}{did_you_mean(key, known)}"
        )
    return known[key]


def audit_action(section: Section[Any], verb: str) -> str:
    """Return how the audit calls it when somebody does this to an entry."""
    return f"{section.noun.replace(' ', '_')}.{verb}"


def list_entries(section: Section[Any]) -> list[OverridableEntry]:
    """Return all entries of a section, in the order they have in effect."""
    config = live.current()
    rows = {row.name: row for row in Override.objects.filter(section=section.key)}
    written = entry_texts.read_texts(config.content, section.key)
    later = sorted(rows.keys() - written.keys(), key=lambda name: rows[name].pk)
    return [
        _build_entry(config, section, name, written.get(name), rows.get(name))
        for name in [*written, *later]
    ]


def get_entry(section: Section[Any], name: str) -> OverridableEntry:
    """Return an entry, a disabled one too; raises `EntryUnknown`."""
    config = live.current()
    row = Override.objects.filter(section=section.key, name=name).first()
    return _get_entry(config, section, name, row)


def list_versions(
    section: Section[Any], name: str, *, before: int | None = None, limit: int = 20
) -> list[OverrideVersion]:
    """Return what was done to an entry in the studio, the newest first."""
    found = OverrideVersion.objects.filter(section=section.key, name=name)
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


def get_version(section: Section[Any], name: str, id: int) -> OverrideVersion:
    """Return something that was done to an entry; raises `EntryUnknown`."""
    found = OverrideVersion.objects.filter(section=section.key, name=name, id=id)
    row = found.first()
    if row is None:
        raise EntryUnknown(f"{section.noun} '{name}' has no version {id}")
    return row


def diff_entry(entry: OverridableEntry) -> str:
    """Return what the studio changes of an entry, as a unified diff; "" if nothing."""
    if entry.label in ("dynamic", "yaml"):
        return ""
    now = "" if entry.label == "tombstoned" else entry.text
    file = live.current().path.name
    return diff_texts(entry.file_text or "", now, file, "studio")


def diff_texts(was: str, now: str, was_in: str, now_in: str) -> str:
    """Return what differs between two texts, as a unified diff."""
    before, after = was.splitlines(), now.splitlines()
    lines = difflib.unified_diff(before, after, was_in, now_in, lineterm="")
    return "\n".join(lines)


def create_entry(section: Section[Any], text: str, *, by: str) -> str:
    """Add an entry and return the name it gives itself; raises `EntryTaken`."""
    name = entry_validation.read_name(section, text)

    def check(config: Config, row: Override | None) -> None:
        written = entry_texts.read_texts(config.content, section.key)
        if row is not None and row.is_tombstone:
            raise EntryTaken(
                f"{section.noun} '{name}' is there and disabled; reset it, or save it "
                "under its own address"
            )
        if row is not None or name in written:
            raise EntryTaken(
                f"another {section.noun} is already called '{name}'; choose another "
                "name, or change that one"
            )
        entry_validation.check_not_reserved(section, name)

    _save(section, name, text, by, check)
    return name


def save_entry(
    section: Section[Any], name: str, text: str, *, by: str, version: int | None = None
) -> bool:
    """Have this run under a name that is there, in place of what the file says.

    `version` is that of the entry as it was shown: it is refused with `EntryChanged`
    if somebody changed it since. Raises `ConfigInvalid`, with the validator's words.
    Returns whether it says anything else than what runs; nothing is stored otherwise.
    """
    entry_validation.check_name(section, name, text)

    def check(config: Config, row: Override | None) -> OverridableEntry:
        _check_version(section, name, row, version)
        return _get_entry(config, section, name, row)

    return _save(section, name, text, by, check)


def disable_entry(
    section: Section[Any], name: str, *, by: str, version: int | None = None
) -> bool:
    """Disable an entry of the file; drop one that is in the studio alone.

    Raises `ConfigInvalid` naming who refers to it. Returns whether it was enabled.
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
    """Have what the file says run again, if it says anything.

    Raises `NothingToReset` where the studio says nothing, and for an entry that is in
    the studio alone.
    """
    with _lock_overrides() as (config, overlays):
        row = Override.objects.filter(section=section.key, name=name).first()
        _check_version(section, name, row, version)
        entry = _get_entry(config, section, name, row)
        if entry.label == "yaml":
            raise NothingToReset(f"{section.noun} '{name}' is as the file says already")
        if entry.label == "dynamic":
            raise NothingToReset(
                f"{section.noun} '{name}' is not in the file, so there is nothing to "
                "reset it to; delete it instead"
            )
        _check_change(config, overlays.without(section.key, name), section, name)
        _delete_override(section, name, OverrideAction.RESET, by)


def validate_entry(
    section: Section[Any], text: str, *, name: str | None = None
) -> Sequence[Problem]:
    """Return what would be said of an entry if it were saved, and save nothing.

    Without a name it is a new one.
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


# What changes have in common.


@contextmanager
def _lock_overrides() -> Iterator[tuple[Config, Overlays]]:
    """Begin a transaction in which nobody else changes anything here."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            # Each change is judged with all others: of two at once one comes after.
            # It keeps their numbers in the order they are seen in, too. SQLite has
            # one writer.
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
    """Raise `ConfigInvalid` for what a change breaks; not for what is broken anyway."""
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
    # Later ones do not fit for want of the first: they are no causes.
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
        f"{section.noun} '{name}' was {what} since it was shown; look at what it is "
        "now before you change it"
    )


def _get_entry(
    config: Config, section: Section[Any], name: str, row: Override | None
) -> OverridableEntry:
    written = entry_texts.read_texts(config.content, section.key)
    if row is None and name not in written:
        # In force and nowhere written: a configuration of no file.
        known = config.get(section)
        raise EntryUnknown(
            f"no {section.noun} is called '{name}'{did_you_mean(name, known)}"
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
