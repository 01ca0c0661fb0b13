"""Providers and MCP servers: entries of a map in the file, each with its address."""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config import AGENTS
from config import live, sections
from config.editing import config_file, file_editor
from config.editing.config_file import ConfigFile
from config.editing.round_trip import serializer
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid, EntryUnknown
from core.errors import Invalid
from providers.config import KIND_NAMES
from studio.configuration import mcp_servers
from studio.configuration.entry_schemas import DeletedEntry
from studio.configuration.section_views import (
    SETTINGS_URL,
    SectionView,
    section_title,
    section_url,
)
from studio.configuration.yaml_base_views import (
    REMOVAL_DESCRIPTION,
    VERSION_PARAMETER,
    YamlPartView,
)

RESERVED_NAMES = ("", ".", "..", "new")
"""Names whose addresses belong to other views."""


class MapSectionView(SectionView):
    """A whole map: read it, add an entry, or replace it."""

    name_fields: ClassVar[tuple[str, ...]] = ("name",)
    """The form fields with the name of a new entry, in order of precedence."""

    @extend_schema(
        summary="Add an entry to the file",
        parameters=[VERSION_PARAMETER],
        request=OpenApiTypes.OBJECT,
        responses={201: OpenApiTypes.OBJECT},
    )
    def post(self, request: Request) -> HttpResponseBase:
        name, text = file_editor.split_name(self._create_entry(), self.name_fields)
        if name in RESERVED_NAMES or not name.isprintable():
            raise Invalid(
                "The name must be one line, and not 'new', '.' or '..'",
                param="name",
            )
        details = {"section": self.key, "entry": name}
        file = self.run_recorded(details, file_editor.add_entry, (self.key, name), text)
        to = f"{self.edit_url}/{quote(name, safe='')}"
        message = f"'{name}' added{self.apply_time()}"
        data = file.data_at((self.key, name))
        response = self.confirm_change(
            data, message=message, redirect_to=to, status=201
        )
        if not self.wants_html:
            response["Location"] = to
        return response

    def _create_entry(self) -> str:
        if self.is_yaml_text():
            return self.yaml_text()
        data = self.submitted_fields() if self.is_form else self.body_data()
        if not isinstance(data, Mapping):
            raise Invalid("The body must be a map: one entry")
        return serializer.dump_block({key: it for key, it in data.items() if it != ""})

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form with the submitted values, also that of a new entry."""
        if self.request.method != "POST":
            return super().refused_form_context()
        try:
            file = config_file.read_file()
            text = file.text_at(self.part_path)
        except ConfigInvalid:
            return None
        return {
            **self.page_context(),
            "yaml": text,
            "version": file.version,
            "form_data": self.submitted_fields(),
        }

    def table_rows(self, file: ConfigFile) -> list[dict[str, Any]]:
        """Return the table's row of each entry."""
        data = file.data_at((self.key,))
        entries = data if isinstance(data, Mapping) else {}
        return [self.table_row(name, entry or {}) for name, entry in entries.items()]

    def table_row(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table's row of one entry."""
        address = f"{self.edit_url}/{quote(name, safe='')}"
        return {"name": name, "address": address, **entry}

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        return {
            **super().page_context(),
            "rows": self.table_rows(config_file.read_file()),
        }


class ProviderListView(MapSectionView):
    """The providers of models."""

    key = "providers"
    template = "studio/configuration/providers.html"
    name_fields = ("name", "kind")

    def table_row(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table's row of one provider."""
        agents = live.current().get(AGENTS).values()
        return {
            "kind": name,
            **super().table_row(name, entry),
            "agents": [agent.name for agent in agents if agent.provider == name],
            "key": describe_key_source(entry),
        }

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        return {**super().page_context(), "kinds": KIND_NAMES}


def describe_key_source(entry: Mapping[str, Any]) -> str:
    """Return the source of a provider's key as text."""
    key = entry.get("api_key")
    if not key:
        return "none"
    return str(key) if str(key).startswith("${") else "in the file"


class McpServerListView(MapSectionView):
    """The MCP servers."""

    key = "mcp"
    template = "studio/configuration/mcp_servers.html"

    def table_rows(self, file: ConfigFile) -> list[dict[str, Any]]:
        """Return the table's row of each server, with its current state."""
        states = mcp_servers.server_states()
        rows = super().table_rows(file)
        return [{**row, "state": states.get(row["name"])} for row in rows]


class MapEntryView(YamlPartView):
    """One entry of a map."""

    template = "studio/configuration/map_entry.html"
    key: str = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the breadcrumbs; raises `EntryUnknown` for an entry not in the file."""
        self.name = self.title = kwargs["name"]
        self.breadcrumbs = [
            ("Settings", SETTINGS_URL),
            (section_title(self.key), section_url(self.key)),
        ]
        super().initial(request, *args, **kwargs)
        if not config_file.read_file().has_entry(self.part_path):
            noun = sections.registered_sections()[self.key].noun
            raise EntryUnknown(f"There is no {noun} '{self.name}' in coulisse.yaml")

    @property
    def part_path(self) -> KeyPath:
        """The path of the entry in the file."""
        return (self.key, self.name)

    @property
    def edit_url(self) -> str:
        """The address of its form."""
        return f"{section_url(self.key)}/{quote(self.name, safe='')}"

    @extend_schema(
        summary="Show an entry of the file with masked secrets",
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, name: str) -> Response:
        return self.respond_with_part(config_file.read_file())

    @extend_schema(
        summary="Replace an entry of the file",
        description=f"{REMOVAL_DESCRIPTION} The response is then empty.",
        parameters=[VERSION_PARAMETER],
        request=OpenApiTypes.OBJECT,
        responses=OpenApiTypes.OBJECT,
    )
    def put(self, request: Request, name: str) -> HttpResponseBase:
        file = self.replace_part()
        if self.wants_html and not file.has_entry(self.part_path):
            return self.confirm_change(
                {}, message=f"'{name}' removed", redirect_to=section_url(self.key)
            )
        return self.respond_with_change(file, f"'{name}' saved")

    @extend_schema(
        summary="Remove an entry from the file",
        parameters=[VERSION_PARAMETER],
        responses={200: DeletedEntry},
    )
    def delete(self, request: Request, name: str) -> HttpResponseBase:
        details = {"section": self.key, "entry": name}
        self.run_recorded(details, file_editor.remove_entry, self.part_path)
        data = {"name": name, "deleted": True}
        return self.confirm_change(
            data, message=f"'{name}' removed", redirect_to=section_url(self.key)
        )

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        return {
            **super().page_context(),
            "name": self.name,
            "section_url": section_url(self.key),
            "section": sections.registered_sections()[self.key],
        }


class ProviderView(MapEntryView):
    """One provider."""

    key = "providers"


class McpServerView(MapEntryView):
    """One MCP server, with its configuration and its current state."""

    key = "mcp"
    template = "studio/configuration/mcp_server.html"

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        return {**super().page_context(), **mcp_servers.page_context(self.name)}
