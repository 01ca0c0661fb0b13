"""What the faces of the file have in common: a section, an entry, all of it.

They are written into `coulisse.yaml` (`config/editing/file_editor.py`); scripts may say
which version of it they were shown, forms do.
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
from config.editing import file_editor
from config.editing.file_editor import ConfigFile, FileWrite
from config.editing.round_trip import key_paths
from config.editing.round_trip.key_paths import KeyPath
from config.errors import ConfigInvalid
from config.loading import reader
from core.errors import Invalid
from studio.base import edit_conflicts
from studio.base.views import YAML_FIELD, StudioView

UNCHANGED_MESSAGE = "Nothing changed: the file says this already"
REMOVAL_DESCRIPTION = (
    "`null` takes it out of the file; a request without a body is refused."
)
VERSION_PARAMETER = OpenApiParameter(
    "version",
    str,
    description="The version that was shown (its ETag); refused with 409 if the file "
    "is another now. `If-Match` says the same.",
)


class YamlView(StudioView):
    """A face of the file, or of a part of it."""

    template = "studio/file/section.html"
    is_changed: bool = False
    """Whether the file says anything else than it did."""

    def change_message(self, words: str) -> str:
        """Return what a person is told of a change, or that there was none."""
        return words if self.is_changed else UNCHANGED_MESSAGE

    def with_etag(self, file: ConfigFile, response: Response) -> Response:
        """Return a response that says which version of the file it is about."""
        response["ETag"] = f'"{file.version}"'
        return response

    def expected_file_version(self) -> str | None:
        """Return the version that was shown, where it is said."""
        return self.expected_version() or None

    def submitted_form_context(
        self, said: Callable[[ConfigFile], str]
    ) -> dict[str, Any]:
        """Return a form's text, with what `said` of the file if that has changed."""
        text, shown = self.yaml_text(), self._form_fields().get("version", "")
        form = {"yaml": text, "version": shown}
        try:
            file = file_editor.read_file()
            if shown in ("", file.version):
                return form
            now = None if file.is_broken else said(file)
        except ConfigInvalid:
            return form  # There is no such file, and none that was valid once.
        change = edit_conflicts.describe_conflict(now, text, self.request.path)
        return {**form, "version": file.version, "meanwhile": change}

    def run_recorded(
        self, details: Mapping[str, Any], change: Callable[..., ConfigFile], *args: Any
    ) -> ConfigFile:
        """Make a change of the file and write it down in the audit."""
        by, version = self.actor(), self.expected_file_version()

        def deed(file: ConfigFile) -> AuditEvent:
            target = reader.display_path(file.path)
            return AuditEvent(
                config_reloads.WRITE_ACTION,
                by,
                target,
                {**details, "digest": file.version},
            )

        def record(write: FileWrite) -> ConfigFile:
            self.is_changed = True
            return audit_log.run_recorded(deed, write)

        try:
            return change(*args, version=version, record=record)
        except ConfigInvalid as exc:
            if not self.is_form and all(p.code == errors.SYNTAX for p in exc.problems):
                # Of a script: its body cannot even be read.
                raise ParseError(str(exc)) from exc
            raise


class YamlPartView(YamlView):
    """A part of the file: a section, or an entry of one."""

    @property
    def part_path(self) -> KeyPath:
        """Which part."""
        raise NotImplementedError

    @property
    def edit_url(self) -> str:
        """Where it is edited."""
        raise NotImplementedError

    empty_value: Any = {}
    """What is said of a part that is not there, or says nothing."""

    def respond_with_part(self, file: ConfigFile, *, status: int = 200) -> Response:
        """Return what the file says there, as it was asked for."""
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
        """Return what it says; of what is not there, the empty thing of its kind."""
        data = file.data_at(self.part_path)
        return self.empty_value if data is None else data

    def replace_part(self) -> ConfigFile:
        """Write the body there, and leave all else as it is."""
        details = dict(zip(("section", "entry"), self.part_path, strict=False))
        if not self._body.strip():
            # Lest one that was lost on its way empties a section.
            raise Invalid("The body is empty; send null to take this out of the file")
        if self.is_form and not self.is_yaml_text() and not self.submitted_fields():
            raise Invalid(f"The form needs the field '{YAML_FIELD}'", param=YAML_FIELD)
        if self.is_yaml_text():
            return self.run_recorded(
                details, file_editor.put_text, self.part_path, self.yaml_text()
            )
        data = self.submitted_fields() if self.is_form else self.body_data()
        return self.run_recorded(details, file_editor.put_data, self.part_path, data)

    def respond_with_change(self, file: ConfigFile, said: str) -> HttpResponseBase:
        """Return it as it is after a change."""
        if self.wants_html:
            return self.confirm_change(
                {}, said=self.change_message(said), to=self.edit_url
            )
        return self.respond_with_part(file)

    def page_context(self) -> dict[str, Any]:
        """Return what the page needs besides."""
        return {
            "to": self.edit_url,
            "method": "PUT",
            "at": key_paths.to_pointer(self.part_path),
        }

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form as it was filled in."""
        if YAML_FIELD not in self._form_fields():
            return None
        return {
            **self.page_context(),
            **self.submitted_form_context(lambda file: file.text_at(self.part_path)),
        }

    def handle_exception(self, exc: Exception) -> Response:
        """Say what is wrong by the lines of the form, where one was filled in."""
        if isinstance(exc, ConfigInvalid) and self.is_form:
            exc = ConfigInvalid(
                file_editor.relocate_problems(
                    exc.problems, self.part_path, self.yaml_text()
                )
            )
        answer: Response = super().handle_exception(exc)
        return answer
