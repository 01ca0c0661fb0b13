"""Sections of the file, each at its own address, and their overview."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from config import sections
from config.editing import config_file, file_editor
from config.editing.config_file import ConfigFile
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid
from config.starters import starter_file
from config.validation import unsupported_keys
from core.errors import NotFound
from studio.base.views import StudioView
from studio.configuration.entry_schemas import DeletedEntry
from studio.configuration.entry_types import KINDS
from studio.configuration.yaml_base_views import (
    REMOVAL_DESCRIPTION,
    VERSION_PARAMETER,
    YamlPartView,
)
from studio.user_pages.memory_picker import respond_with_picker

SETTINGS_URL = "/admin/settings"
MAX_NAMES = 6
"""The largest number of names on a card."""
SECTION_URLS = {
    "auth": "/admin/auth",
    "mcp": "/admin/mcp",
    "memory": "/admin/memory/settings",
    "providers": "/admin/providers",
    "storage": "/admin/storage",
    "telemetry": "/admin/telemetry",
}
"""Addresses of sections with their own page; the others are under the settings."""
ENTRY_LIST_URLS = {kind.section.key: kind.list_url for kind in KINDS}
"""Lists of entries that the studio can override, by section."""
GROUPS = {
    "Models and tools": ("providers", "prices", "mcp", "skills", "vars"),
    "Memory and telemetry": ("memory", "telemetry", "storage"),
    "Access and limits": ("auth", "users", "default_user_id", "limits"),
    "Background work": ("tasks", "triggers", "sidecars"),
    "Server": ("server", "public_base_url", "mcp_server", "studio"),
    "Overridable in the studio": tuple(ENTRY_LIST_URLS),
}
TITLES = {"mcp": "MCP servers", "mcp_server": "MCP at /mcp", "auth": "Access"}


def section_title(key: str) -> str:
    """Return the title of a section."""
    return TITLES.get(key, key.replace("_", " ").capitalize())


def section_url(key: str) -> str:
    """Return the address of a section's form."""
    return SECTION_URLS.get(key, f"{SETTINGS_URL}/{key}")


def describe_section(key: str) -> str:
    """Return the purpose of a section, in a sentence."""
    section = sections.registered_sections().get(key)
    text = section.description if section else ""
    text = (text or unsupported_keys.KEYS.get(key, "")).rstrip(".").replace("`", "")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


class SectionView(YamlPartView):
    """One section of the file."""

    template = "studio/configuration/section.html"
    key: str = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Find the section; raises `NotFound` for an unknown one."""
        self.key = kwargs.get("key", self.key)
        self.title = section_title(self.key)
        self.breadcrumbs = [("Settings", SETTINGS_URL)]
        super().initial(request, *args, **kwargs)
        if self.key in sections.registered_sections():
            return
        if self.key not in unsupported_keys.KEYS:
            raise NotFound(f"There is no section '{self.key}' in coulisse.yaml")
        if request.method == "PUT":
            raise ConfigInvalid([unsupported_keys.build_problem(self.key)])
        raise NotFound(unsupported_keys.describe_unavailable(self.key))

    @property
    def part_path(self) -> KeyPath:
        """The path of the section in the file."""
        return (self.key,)

    @property
    def edit_url(self) -> str:
        """The address of its form."""
        return section_url(self.key)

    @property
    def empty_value(self) -> Any:
        """The value of a section that is not in the file."""
        section = sections.registered_sections()[self.key]
        kind = section.schema.get("type")
        if kind in ("array", "object") or section.noun:
            return [] if kind == "array" else {}
        return ""

    @extend_schema(
        summary="Show a section of the file with masked secrets",
        responses=OpenApiTypes.ANY,
    )
    def get(self, request: Request, key: str = "") -> Response:
        return self.respond_with_part(config_file.read_file())

    @extend_schema(
        summary="Replace a section of the file",
        description=REMOVAL_DESCRIPTION,
        parameters=[VERSION_PARAMETER],
        request=OpenApiTypes.ANY,
        responses=OpenApiTypes.ANY,
    )
    def put(self, request: Request, key: str = "") -> HttpResponseBase:
        return self.respond_with_change(
            self.replace_part(), f"{self.title} saved{self.apply_time()}"
        )

    def apply_time(self) -> str:
        """Return the end of a message that says when an edit applies."""
        applies = sections.registered_sections()[self.key].applies
        return "; restart the server to apply it" if applies == "restart" else ""

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        return {
            **super().page_context(),
            "lead": describe_section(self.key),
            "section": sections.registered_sections()[self.key],
            "entries_url": ENTRY_LIST_URLS.get(self.key),
            "example": starter_file.example_of(self.key),
        }


class RemovableSectionView(SectionView):
    """`/admin/settings/{key}`: a section that can also be removed."""

    @extend_schema(
        summary="Remove a section from the file",
        parameters=[VERSION_PARAMETER],
        responses={200: DeletedEntry},
    )
    def delete(self, request: Request, key: str = "") -> HttpResponseBase:
        if config_file.read_file().has_entry(self.part_path):
            self.run_recorded(
                {"section": self.key}, file_editor.remove_entry, self.part_path
            )
        message = self.change_message(f"{self.title} removed{self.apply_time()}")
        return self.confirm_change(
            {"name": self.key, "deleted": True},
            message=message,
            redirect_to=SETTINGS_URL,
        )


class MemoryView(SectionView):
    """`/admin/memory`: a user picker for browsers, the section for scripts."""

    key = "memory"

    @extend_schema(summary="Show the `memory:` section", responses=OpenApiTypes.ANY)
    def get(self, request: Request, key: str = "") -> Response:
        if not self.wants_html:
            return super().get(request)
        self.title, self.breadcrumbs = "Memory", ()
        self.template = "studio/memory/user_picker.html"  # type: ignore[misc]
        return respond_with_picker(self)


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
        cards = {
            key: serialize_card(file, key) for group in GROUPS.values() for key in group
        }
        others = sections.registered_sections().keys() - cards.keys()
        cards.update({key: serialize_card(file, key) for key in sorted(others)})
        lead = "The sections of coulisse.yaml. Edits are written to the file."

        def page() -> dict[str, Any]:
            grouped = {**GROUPS, "Other": tuple(sorted(others))}
            groups = {
                group: [cards[key] for key in keys] for group, keys in grouped.items()
            }
            return {"groups": groups, "lead": lead, "file": file}

        data = {"object": "list", "data": list(cards.values())}
        return self.respond(data, page=page)


def serialize_card(file: ConfigFile, key: str) -> dict[str, Any]:
    """Return the card of a section."""
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
    """Return a short summary of a section."""
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
