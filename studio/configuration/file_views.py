"""`coulisse.yaml`: the base of the views of its parts, and the whole file.

The views write through `config/editing/file_editor.py`. Scripts may send the version of
the file that they loaded; forms always do.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import quote

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema, extend_schema_view
from pydantic import BaseModel, Field
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log, config_reloads
from access.audit.audit_events import AuditEvent
from admin_base.formats import data_formats
from admin_base.formats.html_renderer import HtmlRenderer
from admin_base.views import YAML_FIELD
from config import errors, live, sections
from config.editing import config_file, document, file_editor
from config.editing.config_file import ConfigFile
from config.editing.document import KeyPath
from config.editing.file_editor import FileWrite
from config.errors import ConfigInvalid
from config.loading import reader
from config.overrides import overridable_entries, section_editor
from config.overrides.overridable_entries import OverridableEntry
from config.sections import Problem, Section
from config.validation import json_schema
from core.errors import Invalid
from studio.base.error_responses import ConfigProblemList, invalid_config_body
from studio.base.views import StudioView
from studio.configuration.editor_view import CheckView, ConfigDraft, EditorView
from studio.configuration.entry_types import BY_SECTION
from studio.configuration.file_schemas import FileAutoSchema

EDITOR_URL = "/admin/config/edit"
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
ENTRY_SECTIONS = ("mcp", "providers")
"""Sections whose entries have pages."""
TITLES = {"mcp": "MCP servers", "mcp_server": "MCP at /mcp", "auth": "Access"}
UNCHANGED_MESSAGE = "No changes: the file already has this content"


def section_title(key: str) -> str:
    return TITLES.get(key, key.replace("_", " ").capitalize())


def section_url(key: str) -> str:
    """Return the address of a section's form."""
    return SECTION_URLS.get(key, f"{SETTINGS_URL}/{key}")


def entry_url(key: str, name: str) -> str:
    return f"{section_url(key)}/{quote(name, safe='')}"


def override_url(key: str, name: str) -> str:
    """Return the page of an entry or section that the studio overrides."""
    if kind := BY_SECTION.get(key):
        return kind.entry_url(name)
    section = sections.registered_sections().get(key)
    if section is None:  # of a newer release
        return "/admin/overrides"
    has_page = key in ENTRY_SECTIONS and name in live.current().get(section)
    return entry_url(key, name) if has_page else section_url(key)


class FileView(EditorView):
    """The file, a section of it or an entry of a section."""

    key: str = ""
    """The section; empty for the whole file."""
    name: str = ""
    """The entry; empty for the section."""
    edit_url: str = EDITOR_URL
    """The address of its form."""
    list_url: str = ""
    """The address of the list that it is in."""
    is_changed: bool = False
    """Whether the change altered the file."""
    template = "studio/configuration/section.html"
    schema = FileAutoSchema()
    http_method_names = ["get", "put", "head", "options"]

    def set_part(self, key: str, name: str = "") -> None:
        """Set the part of the file, with its addresses and its title."""
        self.key, self.name, self.title = key, name, name or section_title(key)
        self.edit_url, self.list_url = section_url(key), SETTINGS_URL
        self.breadcrumbs = [("Settings", SETTINGS_URL)]
        if name:
            self.edit_url, self.list_url = entry_url(key, name), section_url(key)
            self.breadcrumbs.append((section_title(key), self.list_url))

    @property
    def part_path(self) -> KeyPath:
        return tuple(step for step in (self.key, self.name) if step)

    @property
    def section(self) -> Section[Any] | None:
        return sections.registered_sections().get(self.key)

    def change_message(self, change: str) -> str:
        """Return the message of a change, or of an unchanged file."""
        if not self.is_changed:
            return UNCHANGED_MESSAGE
        is_late = self.section is not None and self.section.applies == "restart"
        part = f"'{self.name}'" if self.name else self.title
        return f"{part} {change}{'; restart the server to apply it' if is_late else ''}"

    def get(self, request: Request, **kwargs: str) -> Response:
        return self.respond_with_file(config_file.read_file())

    def put(self, request: Request, **kwargs: str) -> HttpResponseBase:
        file = self.run_recorded(self._submitted_change())
        if not self.wants_html:
            return self.respond_with_file(file)
        is_gone = bool(self.name) and not file.has_entry(self.part_path)
        return self.confirm_change(
            {},
            message=self.change_message("removed" if is_gone else "saved"),
            redirect_to=self.list_url if is_gone else self.edit_url,
        )

    def delete(self, request: Request, **kwargs: str) -> HttpResponseBase:
        if config_file.read_file().has_entry(self.part_path):
            self.remove_part()
        return self.confirm_change(
            {"name": self.part_path[-1], "deleted": True},
            message=self.change_message("removed"),
            redirect_to=self.list_url,
        )

    def remove_part(self) -> None:
        self.run_recorded(file_editor.remove_entry(self.part_path))

    def respond_with_file(self, file: ConfigFile) -> Response:
        """Return the part in the requested format, with the file's version as ETag."""
        return self.respond_with_part(
            etag=f'"{file.version}"',
            text=lambda: file.text_at(self.part_path),
            data=lambda: self.part_data(file),
            page=lambda: self.form_context(file),
        )

    def part_data(self, file: ConfigFile) -> Any:
        """Return the part as data, also one that is missing."""
        data = file.data_at(self.part_path)
        return self.empty_value() if data is None else data

    def empty_value(self) -> Any:
        """Return the value of a part that is missing or empty."""
        return {}

    # Changes.

    def _submitted_change(self) -> file_editor.Change:
        """Return the replacement of the part; the rest of the file stays unchanged."""
        if self.key and not self._body.strip():
            # Otherwise a body lost in transit would empty a section.
            raise Invalid("The body is empty; send null to remove this from the file")
        if self.is_yaml_text():
            return file_editor.put_text(self.part_path, self.yaml_text())
        if self.is_form and not (self.key and self.submitted_fields()):
            raise Invalid(f"The form needs the field '{YAML_FIELD}'", param=YAML_FIELD)
        data = self.submitted_fields() if self.is_form else self.body_data()
        return file_editor.put_data(self.part_path, data)

    def run_recorded(
        self,
        change: file_editor.Change,
        changed_path: KeyPath = (),
    ) -> ConfigFile:
        """Change the file, with an audit entry that names the part or another path."""
        path, actor = changed_path or self.part_path, self.actor()
        details = dict(zip(("section", "entry"), path, strict=False))

        def event_of(file: ConfigFile) -> AuditEvent:
            return AuditEvent(
                config_reloads.WRITE_ACTION,
                actor,
                reader.display_path(file.path),
                {**details, "digest": file.version},
            )

        def record(write: FileWrite) -> ConfigFile:
            self.is_changed = True
            return audit_log.run_recorded(event_of, write)

        try:
            version = self.expected_version() or None
            if config_file.is_file_edited():
                return file_editor.change_file(change, version=version, record=record)
            return section_editor.change_sections(
                change, version=version, record=record, by=actor.name
            )
        except ConfigInvalid as exc:
            if not self.is_form and all(p.code == errors.SYNTAX for p in exc.problems):
                # The body of a script is not YAML.
                raise ParseError(str(exc)) from exc
            raise

    # Pages.

    def page_context(self) -> dict[str, Any]:
        """Return the context of the page besides the text."""
        return {
            "form_action": self.edit_url,
            "cancel_url": self.list_url,
            "method": "PUT",
            "at": document.to_pointer(self.part_path),
            "section": self.section,
            "is_file_edited": config_file.is_file_edited(),
            "is_read_only": self.is_read_only(),
            "overrides": self.list_overrides(),
        }

    def is_read_only(self) -> bool:
        """Return whether only the file, or another page, may change this section."""
        section = self.section
        return (
            not config_file.is_file_edited()
            and section is not None
            and (section.is_per_machine or section.is_overridable)
        )

    def list_overrides(self) -> list[OverridableEntry]:
        """Return the overrides that this part of the file has in the database."""
        section = self.section
        if section is None or section.is_overridable:
            return []
        found = overridable_entries.list_entries(section)
        return [entry for entry in found if self.name in ("", entry.name)]

    def form_context(self, file: ConfigFile) -> dict[str, Any]:
        """Return the context of the page with the current text."""
        form = {"yaml": file.text_at(self.part_path), "version": file.version}
        return {**self.page_context(), **form}

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted text, or the page of a button."""
        fields = self._form_fields()
        if YAML_FIELD not in fields:
            return self.form_context(config_file.read_file())
        form = {"yaml": self.yaml_text(), "version": fields.get("version", "")}
        # The file may be missing, without an earlier valid version.
        with suppress(ConfigInvalid):
            file = config_file.read_file()
            form = self.submitted_form(
                version=file.version,
                current=None if file.is_broken else file.text_at(self.part_path),
                url=self.request.path,
            )
        return {**self.page_context(), **form}

    def handle_exception(self, exc: Exception) -> Response:
        """Return an error; for a form, with the line numbers of its text."""
        if isinstance(exc, ConfigInvalid) and self.is_form and self.key:
            exc = ConfigInvalid(
                file_editor.relocate_problems(
                    exc.problems, self.part_path, self.yaml_text()
                )
            )
        response: Response = super().handle_exception(exc)
        return response


class ConfigFileView(FileView):
    """`/admin/config`: the YAML text, or JSON if requested."""

    title = "coulisse.yaml"
    template = "studio/configuration/file.html"
    renderer_classes = [
        data_formats.YamlRenderer,
        data_formats.JsonRenderer,
        HtmlRenderer,
    ]

    def page_context(self) -> dict[str, Any]:
        lead = "The whole file, secrets hidden. Checked before saving."
        if not config_file.is_file_edited():
            lead = (
                "The file with the studio's overrides, secrets hidden. Saving stores "
                "the sections that you change as overrides; the file stays as it is."
            )
        return {**super().page_context(), "lead": lead}

    def form_context(self, file: ConfigFile) -> dict[str, Any]:
        """Return the form with the file's text, or its last valid text."""
        is_text_invalid, text, problem = False, "", None
        try:
            text = file.text
            problem = config_file.parse_error(file) if file.is_broken else None
        except ConfigInvalid as exc:
            problem = exc
        if problem is None:
            problem = live.file_error()
            is_text_invalid = problem is not None and config_file.is_file_edited()
        return {
            **self.page_context(),
            "yaml": text,
            "version": file.version,
            "file_error": invalid_config_body(problem)["error"] if problem else None,
            "is_text_invalid": is_text_invalid,
            "is_missing": file.is_missing,
        }


class ConfigEditorView(ConfigFileView):
    """`/admin/config/edit`: the editor for browsers."""

    schema = None  # type: ignore[assignment]
    renderer_classes = StudioView.renderer_classes


@extend_schema_view(
    post=extend_schema(
        operation_id="config_check",
        summary="Validate a text without saving it",
        request=ConfigDraft,
        responses=ConfigProblemList,
    )
)
class CheckConfigView(CheckView):
    """`/admin/config/check`: the problems of an unsaved text."""

    def find_problems(self, draft: ConfigDraft) -> list[Problem]:
        return file_editor.check_text(document.from_pointer(draft.at), draft.yaml)


class ConfigJsonSchema(BaseModel):
    """A JSON Schema, draft 2020-12."""

    dialect: str = Field(alias="$schema")
    title: str
    type: Literal["object"]
    properties: dict[str, dict[str, Any]] = Field(description="Schemas by section.")
    required: list[str]
    additional_properties: Literal[False] = Field(alias="additionalProperties")
    definitions: dict[str, dict[str, Any]] = Field(
        alias="$defs", description="Schemas that the sections refer to."
    )


class ConfigSchemaView(StudioView):
    """`/admin/config/schema`: the schema for completion in editors."""

    renderer_classes = [data_formats.JsonRenderer, data_formats.YamlRenderer]

    @extend_schema(
        summary="Show the JSON Schema of the file", responses=ConfigJsonSchema
    )
    def get(self, request: Request) -> Response:
        return self.respond(
            json_schema.build_schema(sections.registered_sections().values())
        )
