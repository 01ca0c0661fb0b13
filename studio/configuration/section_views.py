"""Sections of the file, and entries of its maps, each at its own address."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseRedirect
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from agents.config import AGENTS
from config import errors, live, sections
from config.editing import config_file, file_editor, round_trip
from config.editing.config_file import ConfigFile
from config.errors import ConfigInvalid, EntryUnknown
from config.starters import starter_file
from core.errors import Invalid, NotFound
from providers.config import KIND_NAMES
from studio.configuration import mcp_servers
from studio.configuration.entry_types import KINDS
from studio.configuration.file_views import FileView, entry_url

ENTRY_LIST_URLS = {kind.section.key: kind.list_url for kind in KINDS}
"""Lists of entries that the studio can override, by section."""
RESERVED_NAMES = ("", ".", "..", "new")
"""Names of entries whose addresses belong to other views."""


def describe_section(key: str) -> str:
    """Return the purpose of a section, in a sentence."""
    section = sections.registered_sections().get(key)
    text = section.description.rstrip(".").replace("`", "") if section else ""
    return f"{text[:1].upper()}{text[1:]}." if text else ""


class SectionView(FileView):
    """One section of the file."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Find the section; raises `NotFound` for an unknown one."""
        self.set_part(kwargs.get("key", self.key))
        super().initial(request, *args, **kwargs)
        if self.key not in sections.registered_sections():
            raise NotFound(f"There is no section '{self.key}' in coulisse.yaml")

    def empty_value(self) -> Any:
        """Return the value of a missing section, by its type."""
        section = sections.registered_sections()[self.key]
        kind = section.schema.get("type")
        if kind == "object" or (section.noun and kind != "array"):
            return {}
        return [] if kind == "array" else ""

    def page_context(self) -> dict[str, Any]:
        return {
            **super().page_context(),
            "lead": describe_section(self.key),
            "entries_url": ENTRY_LIST_URLS.get(self.key),
            "example": starter_file.example_of(self.key),
        }


class RemovableSectionView(SectionView):
    """`/admin/settings/{key}`: a section that can also be removed."""

    http_method_names = [*SectionView.http_method_names, "delete"]


class MemoryView(SectionView):
    """`/admin/memory`: the section for scripts; browsers see the facts."""

    key = "memory"

    def respond_with_file(self, file: ConfigFile) -> Any:
        if self.wants_html:
            return HttpResponseRedirect("/admin/facts")
        return super().respond_with_file(file)


# Maps: sections whose entries have addresses.

Entry = Mapping[str, Any]


class MapSectionView(SectionView):
    """A whole map: read it, add an entry, or replace it."""

    name_fields: tuple[str, ...] = ("name",)
    """The form fields with the name of a new entry, in order of precedence."""
    http_method_names = [*SectionView.http_method_names, "post"]

    def post(self, request: Request) -> HttpResponseBase:
        name, text = file_editor.split_name(self._new_entry(), self.name_fields)
        if name in RESERVED_NAMES or not name.isprintable():
            raise Invalid(
                "The name must be one line, and not 'new', '.' or '..'", param="name"
            )
        path = (self.key, name)
        file = self.run_recorded(file_editor.add_entry(path, text), path)
        self.set_part(*path)
        return self.confirm_change(
            file.data_at(path),
            message=self.change_message("added"),
            redirect_to=self.edit_url,
            status=201,
            is_new=True,
        )

    def _new_entry(self) -> str:
        if self.is_yaml_text():
            return self.yaml_text()
        data = self.submitted_fields() if self.is_form else self.body_data()
        if not isinstance(data, Mapping):
            raise Invalid("The body must be a map: one entry")
        return round_trip.dump_block({key: it for key, it in data.items() if it != ""})

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted values, also that of a new entry."""
        form = super().refused_form_context()
        if self.request.method != "POST":
            return form
        return {**form, "form_data": self.submitted_fields()}

    def page_context(self) -> dict[str, Any]:
        data = config_file.read_file().data_at((self.key,))
        found = data if isinstance(data, Mapping) else {}
        entries = {name: entry or {} for name, entry in found.items()}
        rows = [
            {"name": name, "address": entry_url(self.key, name), **row}
            for name, row in zip(entries, self.load_rows(entries), strict=True)
        ]
        return {**super().page_context(), "rows": rows}

    def load_rows(self, entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
        """Return what the list shows of each entry."""
        raise NotImplementedError


class ProviderListView(MapSectionView):
    key = "providers"
    template = "studio/configuration/providers.html"
    name_fields = ("name", "kind")

    def page_context(self) -> dict[str, Any]:
        return {**super().page_context(), "kinds": KIND_NAMES}

    def load_rows(self, entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
        """Return the kind, the source of the key and the agents of each provider."""
        agents = live.current().get(AGENTS).values()
        return [
            {
                "kind": name,
                **entry,
                "agents": [agent.name for agent in agents if agent.provider == name],
                "key": describe_key_source(entry),
            }
            for name, entry in entries.items()
        ]


def describe_key_source(entry: Entry) -> str:
    """Return the source of a provider's key as text."""
    key = entry.get("api_key")
    if not key:
        return "none"
    return str(key) if str(key).startswith("${") else "in the file"


class McpServerListView(MapSectionView):
    key = "mcp"
    template = "studio/configuration/mcp_servers.html"

    def load_rows(self, entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
        """Return the settings and the current state of each server."""
        states = mcp_servers.server_states()
        return [{**entry, "state": states.get(name)} for name, entry in entries.items()]


class MapEntryView(FileView):
    """One entry of a map."""

    template = "studio/configuration/map_entry.html"
    http_method_names = [*FileView.http_method_names, "delete"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the part; raises `EntryUnknown` for an entry not in the file."""
        self.set_part(self.key, kwargs["name"])
        super().initial(request, *args, **kwargs)
        if not config_file.read_file().has_entry(self.part_path):
            raise EntryUnknown(
                f"There is no {self.noun} '{self.name}' in coulisse.yaml"
            )

    @property
    def noun(self) -> str:
        return sections.registered_sections()[self.key].noun

    def remove_part(self) -> None:
        """Remove the entry; raises `ConfigInvalid` with the entries that use it."""
        try:
            super().remove_part()
        except ConfigInvalid as exc:
            uses = errors.describe_uses(exc.problems, self.noun, self.name)
            raise ConfigInvalid(uses) from None

    def page_context(self) -> dict[str, Any]:
        return {**super().page_context(), "name": self.name}


class McpServerView(MapEntryView):
    key = "mcp"
    template = "studio/configuration/mcp_server.html"

    def page_context(self) -> dict[str, Any]:
        status = mcp_servers.page_context(self.name)
        return {**super().page_context(), **status}
