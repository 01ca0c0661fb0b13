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
"""Names on a card at most."""
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
"""Pages of the studio's own entries of a section."""

GROUPS = {
    "Models and tools": ("providers", "prices", "mcp", "skills", "vars"),
    "Memory and records": ("memory", "telemetry", "storage"),
    "Who, and how much": ("auth", "users", "default_user_id", "limits"),
    "Work": ("tasks", "triggers", "sidecars"),
    "The server": ("server", "public_base_url", "mcp_server", "studio"),
    "Built in the studio": tuple(ENTRY_LIST_URLS),
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
        summary="Show a section of the file, without its secrets",
        responses=OpenApiTypes.ANY,
    )
    def get(self, request: Request, key: str = "") -> Response:
        return self.respond_with_part(config_file.read_file())

    @extend_schema(
        summary="Write a section of the file, and leave all else as it is",
        description=REMOVAL_DESCRIPTION,
        parameters=[VERSION_PARAMETER],
        request=OpenApiTypes.ANY,
        responses=OpenApiTypes.ANY,
    )
    def put(self, request: Request, key: str = "") -> HttpResponseBase:
        return self.respond_with_change(
            self.replace_part(), f"Saved {self.title.lower()}{self.apply_time()}"
        )

    def apply_time(self) -> str:
        """Return when an edit applies, as the end of a sentence."""
        applies = sections.registered_sections()[self.key].applies
        return "; restart the server to apply it" if applies == "restart" else ""

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        section = sections.registered_sections()[self.key]
        more = {
            "section": section,
            "page": ENTRY_LIST_URLS.get(self.key),
            "example": starter_file.example_of(self.key),
        }
        return {**super().page_context(), "lead": describe_section(self.key), **more}


class RemovableSectionView(SectionView):
    """`/admin/settings/{key}`: any section, which can also be removed."""

    @extend_schema(
        summary="Take a section out of the file, as one that is written empty",
        parameters=[VERSION_PARAMETER],
        responses={200: DeletedEntry},
    )
    def delete(self, request: Request, key: str = "") -> HttpResponseBase:
        if config_file.read_file().has_entry(self.part_path):
            self.run_recorded(
                {"section": self.key}, file_editor.remove_entry, self.part_path
            )
        said = self.change_message(
            f"Took {self.title.lower()} out of the file{self.apply_time()}"
        )
        return self.confirm_change(
            {"name": self.key, "deleted": True}, message=said, redirect_to=SETTINGS_URL
        )


class MemoryView(SectionView):
    """`/admin/memory`: the picker of a user for browsers, the section for scripts."""

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
    says: str
    about: str = Field(description="What it is for.")
    applies: Literal["live", "restart"] | None = Field(
        description="When an edit of it applies."
    )
    is_available: bool
    address: str = Field(description="Where it is edited.")
    page: str | None = Field(description="Where the studio's own of it are.")


class SectionCardList(BaseModel):
    """All sections, in the order of their groups."""

    object: Literal["list"] = "list"
    data: list[SectionCard]


class SettingsView(StudioView):
    """The overview of all sections."""

    title = "Settings"
    template = "studio/configuration/settings.html"

    @extend_schema(
        summary="Tell what each section of the file says", responses=SectionCardList
    )
    def get(self, request: Request) -> Response:
        file = config_file.read_file()
        cards = {
            key: serialize_card(file, key) for group in GROUPS.values() for key in group
        }
        others = sections.registered_sections().keys() - cards.keys()
        cards.update({key: serialize_card(file, key) for key in sorted(others)})
        lead = "What coulisse.yaml says. An edit here is written into the file."

        def page() -> dict[str, Any]:
            named = {**GROUPS, "Others": tuple(sorted(others))}
            groups = {
                group: [cards[key] for key in keys] for group, keys in named.items()
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
        "says": summarize_section(section.noun, data) if section else "",
        "about": describe_section(key),
        "applies": section.applies if section else None,
        "is_available": section is not None,
        "address": section_url(key),
        "page": ENTRY_LIST_URLS.get(key),
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
    many = "entries" if noun == "entry" else f"{noun}s"
    count = f"{len(data)} {noun if len(data) == 1 else many}"
    return f"{count}: {_join_names(names)}" if names else count


def _join_names(words: list[str]) -> str:
    more = len(words) - MAX_NAMES
    shown = ", ".join(words[:MAX_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown
