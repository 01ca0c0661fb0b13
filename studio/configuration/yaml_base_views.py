"""The base of the views that write `coulisse.yaml`, in whole or in part.

They write through `config/editing/file_editor.py`. Scripts may send the version of the
file that they loaded; forms always do.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ParseError
from rest_framework.response import Response

from access.audit import audit_log, config_reloads
from access.audit.audit_events import AuditEvent
from config import errors
from config.editing import config_file, file_editor
from config.editing.config_file import ConfigFile
from config.editing.file_editor import FileWrite
from config.editing.round_trip import key_paths
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid
from config.loading import reader
from core.errors import Invalid
from studio.base import edit_conflicts
from studio.base.views import YAML_FIELD, StudioView

UNCHANGED_MESSAGE = "No changes: the file already has this content"
REMOVAL_DESCRIPTION = (
    "`null` removes it from the file. A request without a body is refused."
)
VERSION_PARAMETER = OpenApiParameter(
    "version",
    str,
    description="The version that you loaded (its ETag). The request fails with 409 if "
    "the file has changed. `If-Match` is equivalent.",
)


class YamlView(StudioView):
    """A view of the file, or of a part of it."""

    template = "studio/configuration/section.html"
    is_changed: bool = False
    """Whether the change altered the file."""

    def change_message(self, message: str) -> str:
        """Return the message of a change, or of an unchanged file."""
        return message if self.is_changed else UNCHANGED_MESSAGE

    def with_etag(self, file: ConfigFile, response: Response) -> Response:
        """Add the file's version to a response, as its ETag."""
        response["ETag"] = f'"{file.version}"'
        return response

    def expected_file_version(self) -> str | None:
        """Return the version that the client loaded, if it sends one."""
        return self.expected_version() or None

    def submitted_form_context(
        self, text_of: Callable[[ConfigFile], str]
    ) -> dict[str, Any]:
        """Return a form's submitted text, and the conflict if the file has changed."""
        text, loaded = self.yaml_text(), self._form_fields().get("version", "")
        form = {"yaml": text, "version": loaded}
        try:
            file = config_file.read_file()
            if loaded in ("", file.version):
                return form
            current = None if file.is_broken else text_of(file)
        except ConfigInvalid:
            # The file is missing, and there is no earlier valid version.
            return form
        conflict = edit_conflicts.describe_conflict(current, text, self.request.path)
        return {**form, "version": file.version, "edit_conflict": conflict}

    def run_recorded(
        self, details: Mapping[str, Any], change: Callable[..., ConfigFile], *args: Any
    ) -> ConfigFile:
        """Change the file, with an audit entry."""
        actor, version = self.actor(), self.expected_file_version()

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
            return change(*args, version=version, record=record)
        except ConfigInvalid as exc:
            if not self.is_form and all(p.code == errors.SYNTAX for p in exc.problems):
                # The body of a script is not YAML.
                raise ParseError(str(exc)) from exc
            raise


class YamlPartView(YamlView):
    """A part of the file: a section, or an entry of one."""

    @property
    def part_path(self) -> KeyPath:
        """The path of the part in the file."""
        raise NotImplementedError

    @property
    def edit_url(self) -> str:
        """The address of its form."""
        raise NotImplementedError

    empty_value: Any = {}
    """The value of a part that is missing or empty."""

    def respond_with_part(self, file: ConfigFile, *, status: int = 200) -> Response:
        """Return the part in the requested format."""
        if self.request.accepted_renderer.format == "yaml":
            return self.with_etag(
                file, self.respond(file.text_at(self.part_path), status=status)
            )
        if not self.wants_html:
            return self.with_etag(
                file, self.respond(self._part_data(file), status=status)
            )
        data = {"yaml": file.text_at(self.part_path), "version": file.version}
        return self.with_etag(file, self.respond(data, page=self.page_context))

    def _part_data(self, file: ConfigFile) -> Any:
        """Return the part's value; for a missing part, the empty value of its type."""
        data = file.data_at(self.part_path)
        return self.empty_value if data is None else data

    def replace_part(self) -> ConfigFile:
        """Replace the part by the body; the rest of the file stays unchanged."""
        details = dict(zip(("section", "entry"), self.part_path, strict=False))
        if not self._body.strip():
            # Otherwise a body lost in transit would empty a section.
            raise Invalid("The body is empty; send null to remove this from the file")
        if self.is_form and not self.is_yaml_text() and not self.submitted_fields():
            raise Invalid(f"The form needs the field '{YAML_FIELD}'", param=YAML_FIELD)
        if self.is_yaml_text():
            return self.run_recorded(
                details, file_editor.put_text, self.part_path, self.yaml_text()
            )
        data = self.submitted_fields() if self.is_form else self.body_data()
        return self.run_recorded(details, file_editor.put_data, self.part_path, data)

    def respond_with_change(self, file: ConfigFile, message: str) -> HttpResponseBase:
        """Return the part after a change."""
        if self.wants_html:
            return self.confirm_change(
                {}, message=self.change_message(message), redirect_to=self.edit_url
            )
        return self.respond_with_part(file)

    def page_context(self) -> dict[str, Any]:
        """Return the additional context of the page."""
        return {
            "form_action": self.edit_url,
            "method": "PUT",
            "at": key_paths.to_pointer(self.part_path),
        }

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form with the submitted values."""
        if YAML_FIELD not in self._form_fields():
            return None
        return {
            **self.page_context(),
            **self.submitted_form_context(lambda file: file.text_at(self.part_path)),
        }

    def handle_exception(self, exc: Exception) -> Response:
        """Return an error; for a form, with the line numbers of its text."""
        if isinstance(exc, ConfigInvalid) and self.is_form:
            exc = ConfigInvalid(
                file_editor.relocate_problems(
                    exc.problems, self.part_path, self.yaml_text()
                )
            )
        response: Response = super().handle_exception(exc)
        return response
