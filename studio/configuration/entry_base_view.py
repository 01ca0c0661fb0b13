"""The base of all views of agents, judges, experiments and smoke tests."""

from collections.abc import Sequence
from typing import Any, cast

from django.http.response import HttpResponseBase
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from admin_base.formats import data_formats
from admin_base.query_parameters import MAX_DIGITS
from config.errors import ConfigInvalid
from config.overrides import entry_validation, overridable_entries
from config.overrides.overridable_entries import OverridableEntry
from config.sections import Section
from core.errors import Invalid
from studio.base import error_responses
from studio.base.views import StudioView
from studio.configuration import entry_schemas, entry_types
from studio.configuration.entry_types import EntryKind

FORM_TEMPLATE = "studio/entries/form.html"
VERSION_DESCRIPTION = (
    "The version that you loaded (its ETag). The request fails with 409 if the current "
    "version differs. `If-Match` is equivalent."
)


class EntryAutoSchema(AutoSchema):
    """Describes a view by the kind of its entries."""

    OPERATIONS = {
        ("EntryListView", "GET"): ("list", "List {noun}s"),
        ("EntryListView", "POST"): ("create", "Create {one}"),
        ("EntryDetailView", "GET"): ("retrieve", "Show {one}"),
        ("EntryDetailView", "PUT"): ("update", "Override {one} of the file"),
        ("EntryDetailView", "DELETE"): ("destroy", "Disable or delete {one}"),
        ("CheckEntryView", "POST"): ("check", "Validate a draft of {one}"),
        ("ResetEntryView", "POST"): ("reset", "Reset {one} to the file's value"),
    }
    """The verb and the summary, by view and method."""

    @property
    def _kind(self) -> EntryKind:
        return cast(EntryView, self.view).kind

    @property
    def _verb(self) -> str:
        return self.OPERATIONS[type(self.view).__name__, self.method][0]

    def get_operation_id(self) -> str:
        """Return an operation id such as `agents_list`."""
        is_named = self._verb == "check" and "{" in self.path
        return f"{self._kind.path}_{self._verb}{'_one' if is_named else ''}"

    def get_summary(self) -> str:
        noun = self._kind.section.noun
        one = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
        summary = self.OPERATIONS[type(self.view).__name__, self.method][1]
        return summary.format(noun=noun, one=one)

    def get_tags(self) -> list[str]:
        """Return the kind as the tag."""
        return [self._kind.path]

    def get_override_parameters(self) -> list[Any]:
        """Return the parameters of a change."""
        if self._verb in ("update", "destroy", "reset"):
            return [OpenApiParameter("version", int, description=VERSION_DESCRIPTION)]
        return []

    def get_request_serializer(self) -> Any:
        """Return the request schema, also for YAML."""
        if self._verb == "check":
            return EntryDraft
        is_saved = self._verb in ("create", "update")
        return self._kind.config_class if is_saved else None

    def get_response_serializers(self) -> Any:
        match self._verb:
            case "list":
                return entry_schemas.list_schema(self._kind)
            case "check":
                return error_responses.ConfigProblemList
            case "create":
                return {201: entry_schemas.detail_schema(self._kind)}
            case "destroy" | "reset":
                return {200: entry_schemas.remaining_schema(self._kind)}
        return {200: entry_schemas.detail_schema(self._kind)}


class EntryDraft(BaseModel):
    """The unsaved text of the editor."""

    yaml: str
    at: str = ""
    """The entry's position in the file, as the editor sends it."""


class EntryView(StudioView):
    """A view of one kind of entries."""

    kind: EntryKind = entry_types.AGENTS
    schema = EntryAutoSchema()

    def run_recorded(
        self, verb: str, name: str, change: Any, *args: Any, **kw: Any
    ) -> Any:
        """Make a change with its audit entry; a change that returns False has none."""
        actor = self.actor()
        action = overridable_entries.audit_action(self.kind.section, verb)
        event = AuditEvent(action, actor, name)

        def event_of(result: Any) -> AuditEvent | None:
            return None if result is False else event

        return audit_log.run_recorded(
            event_of, change, self.kind.section, *args, by=actor.name, **kw
        )

    def submitted_yaml(self) -> str:
        """Return the submitted entry; raises `Invalid` for a script's invalid YAML."""
        text, noun = self.yaml_text(), self.kind.section.noun
        if self.is_form:
            return text
        if not text.strip():
            raise Invalid(f"The body is empty; send one {noun} as a map")
        if not isinstance(data_formats.load_yaml(text.encode()), dict):
            raise Invalid(f"The body must be a map: one {noun}")
        return text

    def expected_version_number(self) -> int | None:
        """Return the version that the client loaded, if it sends one."""
        return _parse_int("version", self.expected_version())

    def optional_query_int(self, name: str) -> int | None:
        return _parse_int(name, self.request.query_params.get(name, ""))

    def respond_with_entry(self, name: str, *, status: int = 200) -> Response:
        entry = overridable_entries.get_entry(self.kind.section, name)
        self.title = entry.name
        response = self._entry_response(entry, status=status)
        # A weak ETag, because the figures in the response change by themselves.
        response["ETag"] = f'W/"{entry.version}"'
        return response

    def confirm_entry(
        self, name: str, done: str, *, status: int = 200, is_deleted: bool = False
    ) -> HttpResponseBase:
        """Return a changed entry to a script; redirect a browser with a message."""
        url = self.kind.entry_url(name)
        if not (is_deleted or self.wants_html):
            response = self.respond_with_entry(name, status=status)
            if status == 201:
                response["Location"] = url
            return response
        return self.confirm_change(
            {"name": name, "deleted": is_deleted},
            message=f"{self.kind.section.noun.capitalize()} '{name}' {done}",
            redirect_to=self.kind.list_url if is_deleted else url,
        )

    def _entry_response(self, entry: OverridableEntry, *, status: int) -> Response:
        if self.request.accepted_renderer.format == "yaml":
            return self.respond(entry.text, status=status)
        data, page = self.entry_data(entry)
        return self.respond(data, status=status, page=lambda: page)

    def entry_data(
        self, entry: OverridableEntry
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return one entry in full, and the additional context of its page."""
        details = self.kind.load_details(entry.name, entry.value)
        before = self.optional_query_int("before")
        data = entry_schemas.serialize_entry(entry, details, before=before)
        return data, {**self.page_context(), "entry": entry, "details": details}

    def page_context(self) -> dict[str, Any]:
        """Return the context that every page of the kind needs."""
        return {"kind": self.kind, "lead": "", "list_url": self.kind.list_url}

    def own_files(self, text: str, name: str | None) -> Sequence[str]:
        """Return the files whose problems belong to the draft itself."""
        section = self.kind.section
        return entry_validation.problem_labels(
            section, name or _find_name(section, text)
        )

    def form_context(
        self, *, yaml: str, to: str, method: str, name: str | None = None, **more: Any
    ) -> dict[str, Any]:
        self.template = FORM_TEMPLATE  # type: ignore[misc]
        form = {"yaml": yaml, "form_action": to, "method": method, "name": name}
        editor = {
            "at": f"{self.kind.section.key}/0",
            "check": f"{to}/check",
            "own_files": self.own_files(yaml, name),
        }
        return {**self.page_context(), **form, **editor, **more}


def _parse_int(name: str, text: str) -> int | None:
    if text == "":
        return None
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise Invalid(f"'{name}' must be a whole number", param=name)
    return int(text)


def _find_name(section: Section[Any], text: str) -> str | None:
    """Return the name in a text that may be invalid YAML."""
    try:
        return entry_validation.read_name(section, text)
    except ConfigInvalid:
        return None
