"""Sections of the file, and entries of its maps, each at its own address."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import HttpResponseRedirect
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from agents.config import AGENTS
from config import errors, live, sections
from config.editing import config_file, file_editor, round_trip
from config.editing.config_file import ConfigFile
from config.errors import ConfigInvalid, EntryUnknown
from config.sections import Section
from config.starters import starter_file
from config.validation import unsupported_keys
from core.errors import Invalid, NotFound
from providers.config import KIND_NAMES
from studio.configuration import mcp_servers
from studio.configuration.entry_types import KINDS
from studio.configuration.file_views import FileView

SETTINGS_URL = "/admin/settings"
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
TITLES = {"mcp": "MCP servers", "mcp_server": "MCP at /mcp", "auth": "Access"}
RESERVED_NAMES = ("", ".", "..", "new")
"""Names of entries whose addresses belong to other views."""


def section_title(key: str) -> str:
    return TITLES.get(key, key.replace("_", " ").capitalize())


def section_url(key: str) -> str:
    """Return the address of a section's form."""
    return SECTION_URLS.get(key, f"{SETTINGS_URL}/{key}")


def entry_url(key: str, name: str) -> str:
    return f"{section_url(key)}/{quote(name, safe='')}"


def describe_section(key: str) -> str:
    """Return the purpose of a section, in a sentence."""
    section = sections.registered_sections().get(key)
    text = section.description if section else ""
    text = (text or unsupported_keys.KEYS.get(key, "")).rstrip(".").replace("`", "")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


class FilePartView(FileView):
    """A section of the file, or an entry of a section."""

    @property
    def edit_url(self) -> str:  # type: ignore[override]  # of the part
        return entry_url(self.key, self.name) if self.name else section_url(self.key)

    @property
    def list_url(self) -> str:  # type: ignore[override]  # of the part
        return section_url(self.key) if self.name else SETTINGS_URL

    @property
    def section(self) -> Section[Any]:
        return sections.registered_sections()[self.key]

    @property
    def apply_time(self) -> str:  # type: ignore[override]  # of the section
        is_late = self.section.applies == "restart"
        return "; restart the server to apply it" if is_late else ""

    def page_context(self) -> dict[str, Any]:
        return {**super().page_context(), "section": self.section}


class SectionView(FilePartView):
    """One section of the file."""

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

    def empty_value(self) -> Any:
        """Return the value of a missing section, by its type."""
        kind = self.section.schema.get("type")
        if kind == "object" or (self.section.noun and kind != "array"):
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

    def respond_with_part(self, file: ConfigFile) -> Any:
        if self.wants_html:
            return HttpResponseRedirect("/admin/facts")
        return super().respond_with_part(file)


# Maps: sections whose entries have addresses.

Entry = Mapping[str, Any]


def describe_key_source(entry: Entry) -> str:
    """Return the source of a provider's key as text."""
    key = entry.get("api_key")
    if not key:
        return "none"
    return str(key) if str(key).startswith("${") else "in the file"


def provider_rows(entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
    """Return what the list of providers shows of each."""
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


def mcp_server_rows(entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
    """Return what the list of MCP servers shows of each, with its current state."""
    states = mcp_servers.server_states()
    return [{**entry, "state": states.get(name)} for name, entry in entries.items()]


@dataclass(frozen=True)
class MapKind:
    """The properties of one kind of entries in a map of the file."""

    key: str
    list_template: str
    load_rows: Callable[[Mapping[str, Entry]], list[dict[str, Any]]]
    """Returns what the list shows of each entry."""
    entry_template: str = "studio/configuration/map_entry.html"
    load_details: Callable[[str], dict[str, Any]] = lambda name: {}
    """Returns the additional context of an entry's page."""
    name_fields: tuple[str, ...] = ("name",)
    """The form fields with the name of a new entry, in order of precedence."""
    choices: tuple[str, ...] = ()
    """The kinds that the form of a new entry offers."""


PROVIDERS = MapKind(
    key="providers",
    list_template="studio/configuration/providers.html",
    load_rows=provider_rows,
    name_fields=("name", "kind"),
    choices=tuple(KIND_NAMES),
)
MCP_SERVERS = MapKind(
    key="mcp",
    list_template="studio/configuration/mcp_servers.html",
    load_rows=mcp_server_rows,
    entry_template="studio/configuration/mcp_server.html",
    load_details=mcp_servers.page_context,
)


class MapSectionView(SectionView):
    """A whole map: read it, add an entry, or replace it."""

    kind: MapKind = PROVIDERS
    http_method_names = [*SectionView.http_method_names, "post"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Take the template of the kind."""
        self.template = self.kind.list_template  # type: ignore[misc]
        super().initial(request, *args, **kwargs)

    def post(self, request: Request) -> HttpResponseBase:
        name, text = file_editor.split_name(self._new_entry(), self.kind.name_fields)
        if name in RESERVED_NAMES or not name.isprintable():
            raise Invalid(
                "The name must be one line, and not 'new', '.' or '..'", param="name"
            )
        details, path = {"section": self.key, "entry": name}, (self.key, name)
        file = self.run_recorded(file_editor.add_entry(path, text), details)
        response = self.confirm_change(
            file.data_at(path),
            message=f"'{name}' added{self.apply_time}",
            redirect_to=entry_url(*path),
            status=201,
        )
        response.headers.setdefault("Location", entry_url(*path))
        return response

    def _new_entry(self) -> str:
        if self.is_yaml_text():
            return self.yaml_text()
        data = self.submitted_fields() if self.is_form else self.body_data()
        if not isinstance(data, Mapping):
            raise Invalid("The body must be a map: one entry")
        return round_trip.dump_block({key: it for key, it in data.items() if it != ""})

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form with the submitted values, also that of a new entry."""
        form = super().refused_form_context()
        if form is None or self.request.method != "POST":
            return form
        return {**form, "form_data": self.submitted_fields()}

    def page_context(self) -> dict[str, Any]:
        data = config_file.read_file().data_at((self.key,))
        found = data if isinstance(data, Mapping) else {}
        entries = {name: entry or {} for name, entry in found.items()}
        rows = [
            {"name": name, "address": entry_url(self.key, name), **row}
            for name, row in zip(entries, self.kind.load_rows(entries), strict=True)
        ]
        return {**super().page_context(), "rows": rows, "kinds": self.kind.choices}


class MapEntryView(FilePartView):
    """One entry of a map."""

    kind: MapKind = PROVIDERS
    http_method_names = [*FilePartView.http_method_names, "delete"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the breadcrumbs; raises `EntryUnknown` for an entry not in the file."""
        self.name = self.title = kwargs["name"]
        self.template = self.kind.entry_template  # type: ignore[misc]
        self.breadcrumbs = [
            ("Settings", SETTINGS_URL),
            (section_title(self.key), section_url(self.key)),
        ]
        super().initial(request, *args, **kwargs)
        if not config_file.read_file().has_entry(self.part_path):
            noun = self.section.noun
            raise EntryUnknown(f"There is no {noun} '{self.name}' in coulisse.yaml")

    def remove_part(self) -> None:
        """Remove the entry; raises `ConfigInvalid` with the entries that use it."""
        try:
            super().remove_part()
        except ConfigInvalid as exc:
            uses = errors.describe_uses(exc.problems, self.section.noun, self.name)
            raise ConfigInvalid(uses) from None

    def page_context(self) -> dict[str, Any]:
        details = self.kind.load_details(self.name)
        return {**super().page_context(), "name": self.name, **details}
