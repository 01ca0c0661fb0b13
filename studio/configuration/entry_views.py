"""Agents, judges, experiments and smoke tests: the same views for each kind.

Saved entries are stored in the database and override the file; the file does not change
(`config/overrides/override_editor.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from rest_framework.request import Request
from rest_framework.response import Response

from admin_base.formats import data_formats
from agents.config import AGENTS
from config import live
from config.errors import ConfigInvalid, EntryUnknown
from config.overrides import entry_validation, overridable_entries, override_editor
from config.overrides.overridable_entries import OverridableEntry
from core.errors import NotFound
from providers.config import PROVIDERS
from studio.base import edit_conflicts, error_responses
from studio.configuration import entry_schemas
from studio.configuration.entry_base_view import FORM_TEMPLATE, EntryDraft, EntryView
from studio.configuration.entry_types import EntryKind


class EntryListView(EntryView):
    """All entries of a kind."""

    template = "studio/entries/list.html"

    def get(self, request: Request) -> Response:
        self.title = self.kind.title
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
        self.run_recorded("create", name, override_editor.create_entry, text)
        return self.confirm_entry(name, "created", status=201)

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted values."""
        return _new_form_context(self, self.yaml_text())


class NewEntryView(EntryView):
    """The form of a new entry, empty or copied from another (`?like=`)."""

    schema = None  # type: ignore[assignment]
    template = FORM_TEMPLATE

    def get(self, request: Request) -> Response:
        text = starter_yaml(self.kind)
        like = request.query_params.get("like")
        if like:
            text = overridable_entries.get_entry(self.kind.section, like).text
        return self.respond({"yaml": text}, page=lambda: _new_form_context(self, text))


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


def _new_form_context(view: EntryView, text: str) -> dict[str, Any]:
    kind = view.kind
    view.title = f"New {kind.section.noun}"
    view.breadcrumbs = [(kind.title, kind.list_url)]
    return view.form_context(yaml=text, to=kind.list_url, method="POST")


class EntryDetailView(EntryView):
    """One entry: its effective value, its source and its history."""

    template = "studio/entries/detail.html"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the breadcrumbs before any error."""
        self.title = kwargs["name"]
        self.breadcrumbs = [(self.kind.title, self.kind.list_url)]
        super().initial(request, *args, **kwargs)

    def get(self, request: Request, name: str) -> Response:
        return self.respond_with_entry(name)

    def put(self, request: Request, name: str) -> HttpResponseBase:
        text = self.submitted_yaml()
        is_changed = self._change("save", override_editor.save_entry, text)
        return self.confirm_entry(name, "saved" if is_changed else "is unchanged")

    def delete(self, request: Request, name: str) -> HttpResponseBase:
        before = overridable_entries.get_entry(self.kind.section, name)
        is_deleted = before.label == "dynamic"
        verb = "delete" if is_deleted else "disable"
        self._change(verb, override_editor.disable_entry)
        return self.confirm_entry(name, f"{verb}d", is_deleted=is_deleted)

    def _change(self, verb: str, change: Any, *args: str) -> Any:
        """Make a recorded change of the entry, if the client has seen its version."""
        name, version = self.kwargs["name"], self.expected_version_number()
        return self.run_recorded(verb, name, change, name, *args, version=version)

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the form with the submitted values, or the page of the button."""
        is_edit, name = self.request.method == "PUT", self.kwargs["name"]
        try:
            entry = overridable_entries.get_entry(self.kind.section, name)
        except EntryUnknown:
            # Saving creates the deleted entry again.
            return _new_form_context(self, self.yaml_text()) if is_edit else None
        if not is_edit:
            data, page = self.entry_data(entry)
            return {**data, **page, "own_files": self.own_files("", name)}
        text = self.yaml_text()
        form = _edit_form_context(self, name, text, "")
        conflict = edit_conflicts.submitted_form(
            text,
            str(self._form_fields().get("version", "")),
            version=str(entry.version),
            current=entry.text,
            url=form["form_action"],
        )
        return {**form, **conflict, "is_off": entry.label == "tombstoned"}


class EditEntryView(EntryView):
    """The form of an entry, with its current or an older version (`?from=`)."""

    schema = None  # type: ignore[assignment]
    template = FORM_TEMPLATE

    def get(self, request: Request, name: str) -> Response:
        entry = overridable_entries.get_entry(self.kind.section, name)
        text = self._entry_yaml(entry, request.query_params.get("from", ""))
        return self.respond(
            {"yaml": text, "version": entry.version},
            page=lambda: _edit_form_context(self, name, text, str(entry.version)),
        )

    def _entry_yaml(self, entry: OverridableEntry, version: str) -> str:
        if version == "":
            return entry.text
        if not version.isdecimal() or len(version) > 18:
            raise NotFound(f"There is no version '{version}'")
        return entry.get_version(int(version)).body


def _edit_form_context(
    view: EntryView, name: str, text: str, version: str
) -> dict[str, Any]:
    kind = view.kind
    view.title = f"Edit {name}"
    view.breadcrumbs = [(kind.title, kind.list_url), (name, kind.entry_url(name))]
    return view.form_context(
        yaml=text, to=kind.entry_url(name), method="PUT", version=version, name=name
    )


class CheckEntryView(EntryView):
    """The problems of an unsaved entry."""

    renderer_classes = [data_formats.JsonRenderer, data_formats.YamlRenderer]

    def post(self, request: Request, name: str | None = None) -> Response:
        text = self.parse_body(EntryDraft).yaml
        found = override_editor.validate_entry(self.kind.section, text, name=name)
        body = error_responses.invalid_config_body(ConfigInvalid(found))
        files = self.own_files(text, name)
        problems = [_relocate_problem(it, files) for it in body["error"]["problems"]]
        return self.respond({"problems": problems})


def _relocate_problem(problem: dict[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """Return a problem with its line in the draft, or with its location as text."""
    if problem["file"] is None or problem["file"] in files:
        return problem
    message = "{file}:{line}: {message}".format_map(problem)
    return {**problem, "message": message, "line": None, "column": None}


class ResetEntryView(EntryDetailView):
    """Reset an entry to the file's value."""

    http_method_names = ["post", "options"]

    def post(self, request: Request, name: str) -> HttpResponseBase:
        before = overridable_entries.get_entry(self.kind.section, name)
        self._change("reset", override_editor.reset_entry)
        is_deleted, done = before.file_text is None, "reset to the file's value"
        return self.confirm_entry(name, done, is_deleted=is_deleted)


def build_urls(kind: EntryKind) -> list[URLPattern]:
    return [
        path(kind.path, EntryListView.as_view(kind=kind)),
        path(f"{kind.path}/new", NewEntryView.as_view(kind=kind)),
        path(f"{kind.path}/check", CheckEntryView.as_view(kind=kind)),
        path(f"{kind.path}/<path:name>/check", CheckEntryView.as_view(kind=kind)),
        path(f"{kind.path}/<path:name>/edit", EditEntryView.as_view(kind=kind)),
        path(f"{kind.path}/<path:name>/reset", ResetEntryView.as_view(kind=kind)),
        path(f"{kind.path}/<path:name>", EntryDetailView.as_view(kind=kind)),
    ]
