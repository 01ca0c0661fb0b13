"""Read the entries that the studio may override, with their overrides and history.

A whole section is an entry with the section's key as its name.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from config import live
from config.editing import blocks, document, secret_masks, section_overlays
from config.errors import EntryUnknown
from config.loading import resolution
from config.models import Override, OverrideVersion
from config.overrides import entry_texts
from config.sections import Config, Section
from config.validation.suggestions import did_you_mean

EntryLabel = Literal["yaml", "dynamic", "override", "tombstoned"]


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
    is_rejected: bool = False
    """Whether the override conflicts with the file, and so is not applied."""
    reason: str = ""
    """Why the override is rejected."""
    override_id: int = 0
    """The id of the override's row; 0 without one."""
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
        text = (self.file_text or "") if self.is_rejected else self.text
        found: dict[str, Any] = entry_texts.parse_data(text)
        return found

    @property
    def diff(self) -> str:
        """The override as a unified diff against the file; "" if they are equal."""
        if self.label in ("dynamic", "yaml"):
            return ""
        effective = "" if self.label == "tombstoned" else self.text
        file = live.current().path.name
        return diff_texts(self.file_text or "", effective, file, "studio")

    def versions(
        self, *, before: int | None = None, limit: int = 20
    ) -> list[OverrideVersion]:
        """Return the studio's changes of the entry, newest first."""
        found = OverrideVersion.objects.of(self.section.key, self.name)
        return list((found if before is None else found.filter(id__lt=before))[:limit])

    def get_version(self, id: int) -> OverrideVersion:
        """Return one change of the entry; raises `EntryUnknown`."""
        rows = OverrideVersion.objects.of(self.section.key, self.name)
        found = rows.filter(id=id).first()
        if found is None:
            raise EntryUnknown(f"{self.section.noun} '{self.name}' has no version {id}")
        return found


def get_section(key: str) -> Section[Any]:
    """Return a section that the studio may override; raises `EntryUnknown`."""
    overridable = resolution.overridable_sections()
    if key not in overridable:
        raise EntryUnknown(
            f"'{key}' cannot be overridden, only {', '.join(sorted(overridable))}"
            f"{did_you_mean(key, overridable)}"
        )
    return overridable[key]


def audit_action(section: Section[Any], verb: str) -> str:
    noun = section.noun if section.is_overridable else "config"
    return f"{noun.replace(' ', '_')}.{verb}"


def audit_target(section: Section[Any], name: str) -> str:
    """Return an entry's name for the audit: `bob`, `providers.openai`, `limits`."""
    if section.is_overridable:
        return name
    return ".".join(section_overlays.key_path(section.key, name))


def describe(section: Section[Any], name: str) -> str:
    """Return an entry's name for messages: `agent 'bob'`, `'providers.openai'`."""
    noun = f"{section.noun} " if section.is_overridable else ""
    return f"{noun}'{audit_target(section, name)}'"


def list_entries(section: Section[Any]) -> list[OverridableEntry]:
    """Return the entries of a section, in effective order.

    Of sections that are edited as the file is, these are the overrides.
    """
    config = live.current()
    rows = {row.name: row for row in Override.objects.filter(section=section.key)}
    file_texts = _file_texts(config, section, rows)
    if not section.is_overridable:
        file_texts = {name: file_texts[name] for name in rows if name in file_texts}
    later = sorted(rows.keys() - file_texts.keys(), key=lambda name: rows[name].pk)
    return [
        _build_entry(config, section, name, file_texts.get(name), rows.get(name))
        for name in [*file_texts, *later]
    ]


def get_entry(section: Section[Any], name: str) -> OverridableEntry:
    """Return an entry, also a disabled one; raises `EntryUnknown`."""
    config = live.current()
    row = Override.objects.get_or_none(section.key, name)
    return entry_from_row(config, section, name, row)


def diff_texts(old: str, new: str, old_label: str, new_label: str) -> str:
    """Return the unified diff of two texts."""
    before, after = old.splitlines(), new.splitlines()
    lines = difflib.unified_diff(before, after, old_label, new_label, lineterm="")
    return "\n".join(lines)


def entry_from_row(
    config: Config, section: Section[Any], name: str, row: Override | None
) -> OverridableEntry:
    file_texts = _file_texts(config, section, [name])
    if row is None and name not in file_texts:
        hint = ""
        if section.is_overridable:
            # A configuration built in code has no file content.
            hint = did_you_mean(name, config.get(section))
        raise EntryUnknown(f"there is no {describe(section, name)}{hint}")
    return _build_entry(config, section, name, file_texts.get(name), row)


def _file_texts(
    config: Config, section: Section[Any], names: Iterable[str]
) -> Mapping[str, str]:
    """Return the file's texts by name: of all entries, or of some that it has."""
    if section.is_overridable:
        return entry_texts.read_texts(config.content, section.key)
    doc = document.parse_document(config.content)
    paths = {name: section_overlays.key_path(section.key, name) for name in names}
    return {
        name: blocks.text_at(secret_masks.mask_document(doc), path)
        for name, path in paths.items()
        if path in doc.nodes
    }


def _build_entry(
    config: Config,
    section: Section[Any],
    name: str,
    file_text: str | None,
    row: Override | None,
) -> OverridableEntry:
    value = config.get(section)
    if section.is_overridable or section.has_named_entries:
        value = value.get(name)
    text = file_text or ""
    if row is None:
        return OverridableEntry(section, name, "yaml", value, text, file_text)
    own = (section.key, name)
    rejections = (r for r in config.rejected_overrides if (r.section, r.name) == own)
    rejection = next(rejections, None)
    label: EntryLabel = "override" if file_text is not None else "dynamic"
    return OverridableEntry(
        section,
        name,
        "tombstoned" if row.is_tombstone else label,
        value,
        text if row.is_tombstone else row.body,
        file_text,
        is_rejected=rejection is not None,
        reason="" if rejection is None else rejection.reason,
        override_id=row.pk,
        version=row.version,
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )
