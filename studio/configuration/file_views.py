"""`coulisse.yaml`: the base of the views of its parts, and the whole file.

The views write through `config/editing/file_editor.py`. Scripts may send the version of
the file that they loaded; forms always do.
"""

from collections.abc import Mapping
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log, config_reloads
from access.audit.audit_events import AuditEvent
from admin_base.formats import data_formats
from admin_base.formats.html_renderer import HtmlRenderer
from admin_base.views import YAML_FIELD
from config import errors, live
from config.editing import config_file, document, file_editor
from config.editing.config_file import ConfigFile
from config.editing.document import KeyPath
from config.editing.file_editor import FileWrite
from config.errors import ConfigInvalid
from config.loading import reader
from core.errors import Invalid
from studio.base import edit_conflicts
from studio.base.error_responses import invalid_config_body
from studio.base.views import StudioView
from studio.configuration.file_schemas import FileAutoSchema

EDITOR_URL = "/admin/config/edit"
UNCHANGED_MESSAGE = "No changes: the file already has this content"


class FileView(StudioView):
    """The file, a section of it or an entry of a section."""

    key: str = ""
    """The section; empty for the whole file."""
    name: str = ""
    """The entry; empty for the section."""
    edit_url: str = EDITOR_URL
    """The address of its form."""
    list_url: str = ""
    """The address of the list that it is in."""
    apply_time: str = ""
    """The end of a message that says when an edit applies."""
    is_changed: bool = False
    """Whether the change altered the file."""
    template = "studio/configuration/section.html"
    schema = FileAutoSchema()
    http_method_names = ["get", "put", "head", "options"]

    @property
    def part_path(self) -> KeyPath:
        return tuple(step for step in (self.key, self.name) if step)

    @property
    def _label(self) -> str:
        return f"'{self.name}'" if self.name else self.title

    def get(self, request: Request, **kwargs: str) -> Response:
        return self.respond_with_part(config_file.read_file())

    def put(self, request: Request, **kwargs: str) -> HttpResponseBase:
        file = self.run_recorded(self._submitted_change())
        if not self.wants_html:
            return self.respond_with_part(file)
        is_gone = bool(self.name) and not file.has_entry(self.part_path)
        message = f"{self._label} {'removed' if is_gone else 'saved'}{self.apply_time}"
        return self.confirm_change(
            {},
            message=self.change_message(message),
            redirect_to=self.list_url if is_gone else self.edit_url,
        )

    def delete(self, request: Request, **kwargs: str) -> HttpResponseBase:
        if config_file.read_file().has_entry(self.part_path):
            self.remove_part()
        return self.confirm_change(
            {"name": self.part_path[-1], "deleted": True},
            message=self.change_message(f"{self._label} removed{self.apply_time}"),
            redirect_to=self.list_url,
        )

    def remove_part(self) -> None:
        self.run_recorded(file_editor.remove_entry(self.part_path))

    def change_message(self, message: str) -> str:
        """Return the message of a change, or of an unchanged file."""
        return message if self.is_changed else UNCHANGED_MESSAGE

    def respond_with_part(self, file: ConfigFile) -> Response:
        """Return the part in the requested format, with the file's version as ETag."""
        requested = self.request.accepted_renderer.format
        if requested == "html":
            response = self.respond({}, page=lambda: self.form_context(file))
        elif requested == "yaml":
            response = self.respond(file.text_at(self.part_path))
        else:
            data = file.data_at(self.part_path)
            response = self.respond(self.empty_value() if data is None else data)
        response["ETag"] = f'"{file.version}"'
        return response

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
        audit_details: Mapping[str, Any] | None = None,
    ) -> ConfigFile:
        """Change the file, with an audit entry, by default with the part's path."""
        part = dict(zip(("section", "entry"), self.part_path, strict=False))
        details, actor = audit_details or part, self.actor()

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
            return file_editor.change_file(
                change, version=self.expected_version() or None, record=record
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
        }

    def form_context(self, file: ConfigFile) -> dict[str, Any]:
        """Return the context of the page with the current text."""
        form = {"yaml": file.text_at(self.part_path), "version": file.version}
        return {**self.page_context(), **form}

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form with the submitted text, or the page of a button."""
        try:
            if YAML_FIELD not in self._form_fields():
                return self.form_context(config_file.read_file())
            return {**self.page_context(), **self._submitted_form()}
        except ConfigInvalid:
            return None

    def _submitted_form(self) -> dict[str, Any]:
        """Return a form's submitted text, and the conflict if the file has changed."""
        text, loaded = self.yaml_text(), self._form_fields().get("version", "")
        try:
            file = config_file.read_file()
            current = None if file.is_broken else file.text_at(self.part_path)
        except ConfigInvalid:
            # The file is missing, and there is no earlier valid version.
            return {"yaml": text, "version": loaded}
        return edit_conflicts.submitted_form(
            text,
            loaded,
            version=file.version,
            current=current,
            url=self.request.path,
        )

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
            is_text_invalid = problem is not None
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
