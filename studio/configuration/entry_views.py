"""Agents, judges, experiments and smoke tests: the same views for each kind.

Saved entries are stored in the database and override the file; the file does not change
(`config/overrides/override_editor.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from admin_base.formats import data_formats
from admin_base.query_parameters import MAX_DIGITS
from agents.config import AGENTS
from config import live
from config.errors import ConfigInvalid, EntryUnknown
from config.overrides import entry_validation, overridable_entries, override_editor
from config.overrides.overridable_entries import OverridableEntry
from config.sections import Problem
from core.errors import Invalid
from providers.config import PROVIDERS
from studio.base.error_responses import ConfigProblemList
from studio.configuration import entry_schemas, entry_types
from studio.configuration.editor_view import CheckView, ConfigDraft, EditorView
from studio.configuration.entry_types import EntryKind

FORM_TEMPLATE = "studio/entries/form.html"
VERSION_PARAMETER = OpenApiParameter(
    "version",
    int,
    description="The version that you loaded (its ETag). The request fails with 409 if "
    "the current version differs. `If-Match` is equivalent.",
)


LISTED = 200, entry_schemas.list_schema
DETAILED = 200, entry_schemas.detail_schema
CREATED = 201, entry_schemas.detail_schema
REMAINS = 200, entry_schemas.remaining_schema
PROBLEMS = 200, lambda kind: ConfigProblemList


class EntryAutoSchema(AutoSchema):
    """Describes a view by the kind of its entries."""

    OPERATIONS: ClassVar[Any] = {
        ("EntryListView", "GET"): ("list", "List {noun}s", LISTED),
        ("EntryListView", "POST"): ("create", "Create {one}", CREATED),
        ("EntryDetailView", "GET"): ("retrieve", "Show {one}", DETAILED),
        ("EntryDetailView", "PUT"): ("update", "Override {one} of the file", DETAILED),
        ("EntryDetailView", "DELETE"): (
            "destroy",
            "Disable or delete {one}",
            REMAINS,
        ),
        ("CheckEntryView", "POST"): ("check", "Validate a draft of {one}", PROBLEMS),
        ("ResetEntryView", "POST"): (
            "reset",
            "Reset {one} to the file's value",
            REMAINS,
        ),
    }
    """The verb, the summary, and the status and schema of the response."""

    @property
    def _kind(self) -> EntryKind:
        return cast(EntryView, self.view).kind

    @property
    def _operation(self) -> Any:
        return self.OPERATIONS[type(self.view).__name__, self.method]

    def get_operation_id(self) -> str:
        """Return an operation id such as `agents_list`."""
        verb = self._operation[0]
        is_named = verb == "check" and "{" in self.path
        return f"{self._kind.path}_{verb}{'_one' if is_named else ''}"

    def get_summary(self) -> str:
        noun = self._kind.section.noun
        one = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
        return str(self._operation[1].format(noun=noun, one=one))

    def get_override_parameters(self) -> list[Any]:
        """Return the parameters of a change."""
        is_change = self._operation[0] in ("update", "destroy", "reset")
        return [VERSION_PARAMETER] if is_change else []

    def get_request_serializer(self) -> Any:
        """Return the request schema, also for YAML."""
        is_saved = self._operation[0] in ("create", "update")
        draft = ConfigDraft if self._operation[0] == "check" else None
        return self._kind.config_class if is_saved else draft

    def get_response_serializers(self) -> Any:
        status, schema = self._operation[2]
        return {status: schema(self._kind)}


class EntryView(EditorView):
    """A view of one kind of entries."""

    kind: EntryKind = entry_types.AGENTS
    schema = EntryAutoSchema()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the title and the breadcrumbs before any error."""
        self.title = kwargs.get("name") or self.kind.title
        if "name" in kwargs:
            self.breadcrumbs = [(self.kind.title, self.kind.list_url)]
        super().initial(request, *args, **kwargs)

    def get_entry(self, name: str) -> OverridableEntry:
        return overridable_entries.get_entry(self.kind.section, name)

    def change_entry(
        self, verb: str, name: str, change: Any, *args: Any, **options: Any
    ) -> Any:
        """Make a change with its audit entry; a change that returns False has none."""
        section, actor = self.kind.section, self.actor()
        event = AuditEvent(overridable_entries.audit_action(section, verb), actor, name)

        def event_of(result: Any) -> AuditEvent | None:
            return None if result is False else event

        return audit_log.run_recorded(
            event_of, change, section, *args, by=actor.name, **options
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

    def respond_with_entry(self, name: str, *, status: int = 200) -> Response:
        entry = self.get_entry(name)
        return self.respond_with_part(
            # A weak ETag, because the figures in the response change by themselves.
            etag=f'W/"{entry.version}"',
            text=lambda: entry.text,
            data=lambda: self.entry_data(entry),
            page=lambda: self.entry_context(entry),
            status=status,
        )

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

    def entry_data(self, entry: OverridableEntry) -> dict[str, Any]:
        """Return one entry in full."""
        before = _parse_int("before", self.request.query_params.get("before", ""))
        details = self.kind.load_details(entry.name, entry.value)
        return entry_schemas.serialize_entry(entry, details, before=before)

    def page_context(self) -> dict[str, Any]:
        """Return the context that every page of the kind needs."""
        return {"kind": self.kind, "lead": "", "list_url": self.kind.list_url}

    def entry_context(self, entry: OverridableEntry) -> dict[str, Any]:
        """Return the context of the page of an entry."""
        own = {"entry": entry, "own_files": self.own_files("", entry.name)}
        return {**self.entry_data(entry), **self.page_context(), **own}

    def own_files(self, text: str, name: str | None) -> list[str]:
        """Return the files whose problems belong to the draft itself."""
        section = self.kind.section
        try:
            name = name or entry_validation.read_name(section, text)
        except ConfigInvalid:
            name = None
        return entry_validation.problem_labels(section, name)

    def form_context(
        self, text: str, name: str | None = None, version: int | str = ""
    ) -> dict[str, Any]:
        """Return the context of the form of an entry, by default of a new one."""
        kind = self.kind
        self.template = FORM_TEMPLATE  # type: ignore[misc]
        self.title = f"New {kind.section.noun}" if name is None else f"Edit {name}"
        self.breadcrumbs = [(kind.title, kind.list_url)]
        url = kind.list_url
        if name is not None:
            url = kind.entry_url(name)
            self.breadcrumbs = [*self.breadcrumbs, (name, url)]
        return {
            **self.page_context(),
            "yaml": text,
            "name": name,
            "version": version,
            "method": "POST" if name is None else "PUT",
            "form_action": url,
            "check": f"{url}/check",
            "at": f"{kind.section.key}/0",
            "own_files": self.own_files(text, name),
        }


def _parse_int(name: str, text: str) -> int | None:
    if text == "":
        return None
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise Invalid(f"'{name}' must be a whole number", param=name)
    return int(text)


class EntryListView(EntryView):
    """All entries of a kind."""

    template = "studio/entries/list.html"

    def get(self, request: Request) -> Response:
        overview = self.kind.load_overview()
        rows = [
            (entry, overview.get(entry.name, {}))
            for entry in overridable_entries.list_entries(self.kind.section)
        ]
        data = [entry_schemas.serialize_list_item(*row) for row in rows]
        page = {**self.page_context(), "lead": self.kind.description, "rows": rows}
        return self.respond({"object": "list", "data": data}, page=lambda: page)

    def post(self, request: Request) -> HttpResponseBase:
        text = self.submitted_yaml()
        name = entry_validation.read_name(self.kind.section, text)
        self.change_entry("create", name, override_editor.create_entry, text)
        return self.confirm_entry(name, "created", status=201)

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted values."""
        return self.form_context(self.yaml_text())


class EntryDetailView(EntryView):
    """One entry: its effective value, its source and its history."""

    template = "studio/entries/detail.html"

    def get(self, request: Request, name: str) -> Response:
        return self.respond_with_entry(name)

    def put(self, request: Request, name: str) -> HttpResponseBase:
        text = self.submitted_yaml()
        is_changed = self._change("save", override_editor.save_entry, text)
        return self.confirm_entry(name, "saved" if is_changed else "is unchanged")

    def delete(self, request: Request, name: str) -> HttpResponseBase:
        is_deleted = self.get_entry(name).label == "dynamic"
        verb = "delete" if is_deleted else "disable"
        self._change(verb, override_editor.disable_entry)
        return self.confirm_entry(name, f"{verb}d", is_deleted=is_deleted)

    def _change(self, verb: str, change: Any, *args: str) -> Any:
        """Make a recorded change of the entry, if the client has seen its version."""
        name = self.kwargs["name"]
        version = _parse_int("version", self.expected_version())
        return self.change_entry(verb, name, change, name, *args, version=version)

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form with the submitted values, or the page of the button."""
        is_edit, name = self.request.method == "PUT", self.kwargs["name"]
        try:
            entry = self.get_entry(name)
        except EntryUnknown:
            # Saving creates the deleted entry again.
            return self.form_context(self.yaml_text()) if is_edit else None
        if not is_edit:
            return self.entry_context(entry)
        submitted = self.submitted_form(
            version=str(entry.version),
            current=entry.text,
            url=self.kind.entry_url(name),
        )
        is_off = entry.label == "tombstoned"
        form = self.form_context(submitted["yaml"], name)
        return {**form, **submitted, "is_off": is_off}


class EntryFormView(EntryView):
    """The form of an entry, with its text or that of an older version (`?from=`).

    That of a new entry is empty, or copied from another (`?like=`).
    """

    schema = None  # type: ignore[assignment]
    template = FORM_TEMPLATE

    def get(self, request: Request, name: str | None = None) -> Response:
        query = request.query_params
        source = name or query.get("like")
        entry = self.get_entry(source) if source else None
        text = starter_yaml(self.kind) if entry is None else entry.text
        version: int | str = ""
        if name and entry:
            version = entry.version
            if (older := _parse_int("from", query.get("from", ""))) is not None:
                text = entry.get_version(older).body
        return self.respond(
            {"yaml": text, "version": version},
            page=lambda: self.form_context(text, name, version),
        )


def starter_yaml(kind: EntryKind) -> str:
    """Return the initial text of a new entry, with names from the configuration."""
    config = live.current()
    agents = list(config.get(AGENTS).values())
    first, last = agents[0], agents[-1]
    # Local models are too small for judging and role play.
    providers = config.get(PROVIDERS)
    capable = (each for each in agents if providers[each.provider].kind != "local")
    example = next(capable, first)
    return kind.starter_yaml.format(
        provider=example.provider,
        model=example.model,
        agent=first.name,
        another=last.name if last is not first else "another",
    )


class CheckEntryView(CheckView, EntryView):
    """The problems of an unsaved entry."""

    def find_problems(self, draft: ConfigDraft) -> Iterable[Problem]:
        """Return the problems, those of other entries with their location as text."""
        name = self.kwargs.get("name")
        own = self.own_files(draft.yaml, name)
        section = self.kind.section
        for problem in override_editor.validate_entry(section, draft.yaml, name=name):
            if problem.position is None or problem.position.file in own:
                yield problem
            else:
                yield replace(problem, message=str(problem), position=None)


class ResetEntryView(EntryDetailView):
    """Reset an entry to the file's value."""

    http_method_names = ["post", "options"]

    def post(self, request: Request, name: str) -> HttpResponseBase:
        is_deleted = self.get_entry(name).file_text is None
        self._change("reset", override_editor.reset_entry)
        done = "reset to the file's value"
        return self.confirm_entry(name, done, is_deleted=is_deleted)


def build_urls(kind: EntryKind) -> list[URLPattern]:
    one = f"{kind.path}/<path:name>"
    return [
        path(kind.path, EntryListView.as_view(kind=kind)),
        path(f"{kind.path}/new", EntryFormView.as_view(kind=kind)),
        path(f"{kind.path}/check", CheckEntryView.as_view(kind=kind)),
        path(f"{one}/check", CheckEntryView.as_view(kind=kind)),
        path(f"{one}/edit", EntryFormView.as_view(kind=kind)),
        path(f"{one}/reset", ResetEntryView.as_view(kind=kind)),
        path(one, EntryDetailView.as_view(kind=kind)),
    ]
