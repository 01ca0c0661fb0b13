"""Response schemas of the entries of all kinds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field, RootModel, create_model

from config.models import OverrideVersion
from config.overrides import overridable_entries
from config.overrides.overridable_entries import OverridableEntry
from studio.configuration.detail_schemas import DETAIL_SCHEMAS
from studio.configuration.entry_types import EntryKind

VERSIONS_SHOWN = 20
"""Versions of an entry that one response shows."""


class ListedEntry(BaseModel):
    """An entry in a list."""

    name: str
    label: Literal["yaml", "dynamic", "override", "tombstoned"] = Field(
        description="Whether the file alone has it, the studio alone, both (the "
        "studio's runs), or the studio disables it."
    )
    is_in_force: bool = Field(description="Whether anything runs under this name.")
    is_rejected: bool = Field(
        description="Whether the override conflicts with the file and is rejected."
    )
    reason: str = Field(description="What does not fit.")
    version: int = Field(
        description="Of what the studio says; 0 where it says nothing. Send it as "
        "`?version=` with a change to be refused if somebody was faster."
    )
    changed_at: datetime | None
    changed_by: str


class EntryVersion(BaseModel):
    """A change of an entry in the studio."""

    id: int
    action: Literal["saved", "tombstoned", "reset", "removed"]
    at: datetime
    by: str
    yaml: str


class DetailedEntry(ListedEntry):
    """An entry in full."""

    yaml: str = Field(
        description="As it is written: by the studio if it says anything."
    )
    written: str | None = Field(description="As the file has it.")
    diff: str = Field(description="What the studio changes, as a unified diff.")
    history: list[EntryVersion] = Field(
        description="The newest first, at most 20; those before one by `?before=`."
    )
    has_more: bool = Field(description="Whether there are older ones.")


def serialize_list_item(
    entry: OverridableEntry, beside: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an entry for a list."""
    return {
        "name": entry.name,
        "label": entry.label,
        "is_in_force": entry.is_active,
        "is_rejected": entry.is_rejected,
        "reason": entry.reason,
        "version": entry.version,
        "changed_at": entry.changed_at,
        "changed_by": entry.changed_by,
        "config": entry.data,
        "beside": beside,
    }


def serialize_entry(
    entry: OverridableEntry, details: Mapping[str, Any], *, before: int | None = None
) -> dict[str, Any]:
    """Return an entry in full, with its history before a version."""
    told = overridable_entries.list_versions(
        entry.section, entry.name, before=before, limit=VERSIONS_SHOWN + 1
    )
    return {
        **serialize_list_item(entry, details),
        "yaml": entry.text,
        "written": entry.file_text,
        "diff": overridable_entries.diff_entry(entry),
        "history": [serialize_version(each) for each in told[:VERSIONS_SHOWN]],
        "has_more": len(told) > VERSIONS_SHOWN,
    }


def serialize_version(row: OverrideVersion) -> dict[str, Any]:
    """Return a change of an entry."""
    return {
        "id": row.pk,
        "action": row.action,
        "at": row.at,
        "by": row.by,
        "yaml": row.body,
    }


class DeletedEntry(BaseModel):
    """A deleted entry."""

    name: str
    deleted: Literal[True]


def remaining_schema(kind: EntryKind) -> type[BaseModel]:
    """Return the schema of an entry after it was disabled, deleted or reset."""
    root: Any = RootModel
    either = root[detail_schema(kind) | DeletedEntry]
    return create_model(f"Left{kind.shape.__name__}", __base__=either)


def list_schema(kind: EntryKind) -> type[BaseModel]:
    """Return the schema of a kind's list."""
    fields: dict[str, Any] = {
        "object": (Literal["list"], "list"),
        "data": (list[_entry_schema(kind, ListedEntry, "Listed")], ...),  # type: ignore[misc]
    }
    return create_model(f"{kind.shape.__name__}List", **fields)


def detail_schema(kind: EntryKind) -> type[BaseModel]:
    """Return the schema of a kind's entry in full."""
    return _entry_schema(kind, DetailedEntry, "Detailed")


def _entry_schema(
    kind: EntryKind, base: type[BaseModel], prefix: str
) -> type[BaseModel]:
    what = Field(
        description="What runs, as it could be sent back; null where nothing does."
    )
    in_list, of_one = DETAIL_SCHEMAS[kind.path]
    beside = of_one if base is DetailedEntry else in_list
    fields: dict[str, Any] = {
        "config": (kind.shape | None, what),
        "beside": (beside, Field(description="What else there is to tell of it.")),
    }
    return create_model(f"{prefix}{kind.shape.__name__}", __base__=base, **fields)
