"""The base of all views of agents, judges, experiments and smoke tests."""

from collections.abc import Sequence
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config.errors import ConfigInvalid
from config.overrides import entry_validation, overridable_entries
from config.overrides.overridable_entries import OverridableEntry
from config.sections import Section
from core.errors import Invalid
from studio.base import error_responses, formats
from studio.base.views import StudioView
from studio.configuration import entry_schemas, entry_types
from studio.configuration.entry_types import EntryKind

FORM_TEMPLATE = "studio/entries/form.html"


class EntryAutoSchema(AutoSchema):
    """Describes a view by the kind of its entries."""

    VERBS = {
        ("EntryListView", "GET"): ("list", "List {title}"),
        ("EntryListView", "POST"): ("create", "Add one of {title}"),
        ("EntryDetailView", "GET"): ("retrieve", "Show one of {title}"),
        ("EntryDetailView", "PUT"): ("update", "Have this run in place of the file's"),
        ("EntryDetailView", "DELETE"): (
            "destroy",
            "Disable one, or drop the studio's own",
        ),
        ("CheckEntryView", "POST"): ("check", "Judge one that is being typed"),
        ("ResetEntryView", "POST"): ("reset", "Have what the file says run again"),
    }

    @property
    def _kind(self) -> EntryKind:
        return cast(EntryView, self.view).kind

    def _verb(self) -> tuple[str, str]:
        return self.VERBS[type(self.view).__name__, self.method]

    def get_operation_id(self) -> str:
        """Return an operation id such as `agents_list`."""
        verb = self._verb()[0]
        is_of_one = verb == "check" and "{" in self.path
        return f"{self._kind.path}_{verb}{'_one' if is_of_one else ''}"

    def get_summary(self) -> str:
        """Return the summary of the operation."""
        return self._verb()[1].format(title=self._kind.title.lower())

    def get_tags(self) -> list[str]:
        """Return the kind as the tag."""
        return [self._kind.path]

    def get_override_parameters(self) -> list[Any]:
        """Return the parameters of a change."""
        if self._verb()[0] in ("update", "destroy", "reset"):
            what = (
                "The version that was shown (its ETag); refused with 409 if it is "
                "another now. `If-Match` says the same."
            )
            return [OpenApiParameter("version", int, description=what)]
        return []

    def get_request_serializer(self) -> Any:
        """Return the request schema, also for YAML."""
        verb = self._verb()[0]
        if verb == "check":
            return EntryDraft
        return self._kind.shape if verb in ("create", "update") else None

    def get_response_serializers(self) -> Any:
        """Return the schemas of the responses."""
        match self._verb()[0]:
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
    """A view of one of the kinds."""

    kind: EntryKind = entry_types.AGENTS
    schema = EntryAutoSchema()

    def run_recorded(
        self, verb: str, name: str, change: Any, *args: Any, **kw: Any
    ) -> Any:
        """Make a change with its audit entry, unless it changes nothing."""
        by = self.actor()
        deed = AuditEvent(
            overridable_entries.audit_action(self.kind.section, verb), by, name
        )

        def done(result: Any) -> AuditEvent | None:
            return None if result is False else deed

        return audit_log.run_recorded(
            done, change, self.kind.section, *args, by=by.name, **kw
        )

    def submitted_yaml(self) -> str:
        """Return the submitted entry; refuses invalid YAML from a script."""
        text, noun = self.yaml_text(), self.kind.section.noun
        if self.is_form:
            return text
        if not text.strip():
            raise Invalid(f"The body is empty; it must be a map: one {noun}")
        if not isinstance(formats.load_yaml(text.encode()), dict):
            raise Invalid(f"The body must be a map: one {noun}")
        return text

    def expected_version_number(self) -> int | None:
        """Return the version that the client has seen, if it sends one."""
        return _parse_int("version", self.expected_version())

    def optional_query_int(self, name: str) -> int | None:
        """Return an integer of the query, if given."""
        return _parse_int(name, self.request.query_params.get(name, ""))

    def respond_with_entry(self, name: str, *, status: int = 200) -> Response:
        """Return one entry in full."""
        entry = overridable_entries.get_entry(self.kind.section, name)
        self.title = entry.name
        answer = self._entry_response(entry, status=status)
        # A weak ETag, since the figures in the response change by themselves.
        answer["ETag"] = f'W/"{entry.version}"'
        return answer

    def _entry_response(self, entry: OverridableEntry, *, status: int) -> Response:
        if self.request.accepted_renderer.format == "yaml":
            return self.respond(entry.text, status=status)
        details = self.kind.load_details(entry.name, entry.value)
        before = self.optional_query_int("before")
        data = entry_schemas.serialize_entry(entry, details, before=before)
        page = {**self.page_context(), "entry": entry, "details": details}
        return self.respond(data, status=status, page=lambda: page)

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
        """Return the context of the form."""
        self.template = FORM_TEMPLATE  # type: ignore[misc]
        form = {"yaml": yaml, "form_action": to, "method": method, "name": name}
        editor = {
            "at": f"{self.kind.section.key}/0",
            "check": f"{to}/check",
            "own_files": self.own_files(yaml, name),
        }
        return {**self.page_context(), **form, **editor, **more}


def _parse_int(name: str, said: str) -> int | None:
    if said == "":
        return None
    if not said.isdecimal() or len(said) > 18:
        raise Invalid(f"'{name}' must be a whole number", param=name)
    return int(said)


def _find_name(section: Section[Any], text: str) -> str | None:
    """Return the name in a text that may be invalid YAML."""
    try:
        return entry_validation.read_name(section, text)
    except ConfigInvalid:
        return None
