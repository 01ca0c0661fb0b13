"""The overview of the file's sections, as cards in groups."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from config import sections
from config.editing import config_file
from config.editing.config_file import ConfigFile
from studio.base.views import StudioView
from studio.configuration.file_views import section_title, section_url
from studio.configuration.section_views import ENTRY_LIST_URLS, describe_section

MAX_NAMES = 6
"""The largest number of names on a card."""
GROUPS: dict[str, Sequence[str]] = {
    "Models and tools": ("providers", "prices", "mcp", "skills", "vars"),
    "Memory and telemetry": ("memory", "telemetry", "storage", "retention"),
    "Safety": ("safety",),
    "Access and limits": ("auth", "users", "default_user_id", "limits"),
    "Background work": ("tasks", "triggers", "sidecars"),
    "Server": ("server", "public_base_url", "mcp_server", "studio"),
    "Overridable in the studio": tuple(ENTRY_LIST_URLS),
}


class SectionCard(BaseModel):
    """The summary of a section."""

    key: str
    title: str
    is_set: bool
    summary: str
    description: str
    applies: Literal["live", "restart"] | None = Field(
        description="Whether an edit applies at once or after a restart."
    )
    is_available: bool
    is_overridden: bool = Field(
        description="Whether overrides of it are stored in the database."
    )
    url: str = Field(description="The address of the section.")
    entries_url: str | None = Field(
        description="The list of its entries, if the studio can override them."
    )


class SectionCardList(BaseModel):
    """All sections, in the order of their groups."""

    object: Literal["list"] = "list"
    data: list[SectionCard]


class SettingsView(StudioView):
    """The overview of all sections."""

    title = "Settings"
    template = "studio/configuration/settings.html"

    @extend_schema(summary="List the sections of the file", responses=SectionCardList)
    def get(self, request: Request) -> Response:
        file = config_file.read_file()
        overridden = {o.section for o in config_file.stored_overlays().entries}
        named = {key for keys in GROUPS.values() for key in keys}
        others = sorted(sections.registered_sections().keys() - named)
        groups = {
            group: [
                {**serialize_card(file, key), "is_overridden": key in overridden}
                for key in keys
            ]
            for group, keys in {**GROUPS, "Other": others}.items()
        }
        lead = "The sections of coulisse.yaml. Edits are written to the file."
        if not config_file.is_file_edited():
            lead = (
                "The sections of coulisse.yaml. Edits are stored in the database, and "
                "apply in all processes."
            )
        return self.respond(
            {"object": "list", "data": list(chain.from_iterable(groups.values()))},
            page=lambda: {"groups": groups, "lead": lead},
        )


def serialize_card(file: ConfigFile, key: str) -> dict[str, Any]:
    section = sections.registered_sections().get(key)
    data = file.data_at((key,))
    return {
        "key": key,
        "title": section_title(key),
        "is_set": data is not None,
        "summary": summarize_section(section.noun, data) if section else "",
        "description": describe_section(key),
        "applies": section.applies if section else None,
        "is_available": section is not None,
        "url": section_url(key),
        "entries_url": ENTRY_LIST_URLS.get(key),
    }


def summarize_section(noun: str, data: Any) -> str:
    if data is None:
        return "Not set"
    if isinstance(data, list):
        names = [it.get("name") for it in data if isinstance(it, Mapping)]
        return _format_count(
            noun or "entry", [str(name) for name in names if name], data
        )
    if not isinstance(data, Mapping):
        return str(data)
    if noun:
        return _format_count(noun, list(data), data)
    return (
        _join_names([_format_setting(name, value) for name, value in data.items()])
        or "Empty"
    )


def _format_setting(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{name} ({', '.join(value)})" if value else name
    if isinstance(value, list):
        return f"{name} ({len(value)})"
    return f"{name}: {json.dumps(value) if isinstance(value, bool) else value}"


def _format_count(noun: str, names: list[str], data: Any) -> str:
    plural = "entries" if noun == "entry" else f"{noun}s"
    count = f"{len(data)} {noun if len(data) == 1 else plural}"
    return f"{count}: {_join_names(names)}" if names else count


def _join_names(names: list[str]) -> str:
    omitted = len(names) - MAX_NAMES
    text = ", ".join(names[:MAX_NAMES])
    return f"{text} and {omitted} more" if omitted > 0 else text
