"""What every view of agents, judges, experiments and smoke tests has in common."""

from collections.abc import Sequence
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import Deed
from config.errors import ConfigInvalid
from config.overrides import entry_validation, override_editor
from config.overrides.override_editor import Entry
from config.sections import Section
from core.errors import Invalid
from studio.base import error_responses, formats
from studio.base.views import Face
from studio.configuration import entry_schemas, entry_types
from studio.configuration.entry_types import Kind

FORM = "studio/entries/form.html"


class Described(AutoSchema):
    """Describes a face by its kind."""

    VERBS = {
        ("Entries", "GET"): ("list", "List {title}"),
        ("Entries", "POST"): ("create", "Add one of {title}"),
        ("OneEntry", "GET"): ("retrieve", "Show one of {title}"),
        ("OneEntry", "PUT"): ("update", "Have this run in place of the file's"),
        ("OneEntry", "DELETE"): ("destroy", "Disable one, or drop the studio's own"),
        ("Check", "POST"): ("check", "Judge one that is being typed"),
        ("Reset", "POST"): ("reset", "Have what the file says run again"),
    }

    @property
    def _kind(self) -> Kind:
        return cast(EntryFace, self.view).kind

    def _verb(self) -> tuple[str, str]:
        return self.VERBS[type(self.view).__name__, self.method]

    def get_operation_id(self) -> str:
        """Return `agents_list`."""
        verb = self._verb()[0]
        is_of_one = verb == "check" and "{" in self.path
        return f"{self._kind.path}_{verb}{'_one' if is_of_one else ''}"

    def get_summary(self) -> str:
        """Return what it does."""
        return self._verb()[1].format(title=self._kind.title.lower())

    def get_tags(self) -> list[str]:
        """Return the kind."""
        return [self._kind.path]

    def get_override_parameters(self) -> list[Any]:
        """Return what a change may say."""
        if self._verb()[0] in ("update", "destroy", "reset"):
            what = (
                "The version that was shown (its ETag); refused with 409 if it is "
                "another now. `If-Match` says the same."
            )
            return [OpenApiParameter("version", int, description=what)]
        return []

    def get_request_serializer(self) -> Any:
        """Return the shape that is written in the YAML, too."""
        verb = self._verb()[0]
        if verb == "check":
            return Draft
        return self._kind.shape if verb in ("create", "update") else None

    def get_response_serializers(self) -> Any:
        """Return the shapes of what is answered."""
        match self._verb()[0]:
            case "list":
                return entry_schemas.list_shape(self._kind)
            case "check":
                return error_responses.Problems
            case "create":
                return {201: entry_schemas.detail_shape(self._kind)}
            case "destroy" | "reset":
                return {200: entry_schemas.left_shape(self._kind)}
        return {200: entry_schemas.detail_shape(self._kind)}


class Draft(BaseModel):
    """What is being typed."""

    yaml: str
    at: str = ""
    """Where it stands in the file, as the editor tells everybody."""


class EntryFace(Face):
    """A face about one of the kinds."""

    kind: Kind = entry_types.AGENTS
    schema = Described()

    def run_recorded(self, verb: str, name: str, change: Any, *args: Any, **kw: Any) -> Any:
        """Make a change and write it down in the audit, unless it changed nothing."""
        by = self.actor()
        deed = Deed(override_editor.deed(self.kind.section, verb), by, name)

        def done(result: Any) -> Deed | None:
            return None if result is False else deed

        return audit_log.recorded(
            done, change, self.kind.section, *args, by=by.name, **kw
        )

    def submitted_yaml(self) -> str:
        """Return the entry that is sent; a script's is refused that is no YAML."""
        text, noun = self.yaml_text(), self.kind.section.noun
        if self.is_form:
            return text
        if not text.strip():
            raise Invalid(f"The body is empty; it must be a map: one {noun}")
        if not isinstance(formats.loaded(text.encode()), dict):
            raise Invalid(f"The body must be a map: one {noun}")
        return text

    def expected_version_number(self) -> int | None:
        """Return the version that was shown, where it is said."""
        return _whole("version", self.expected_version())

    def optional_query_int(self, name: str) -> int | None:
        """Return a whole number of the query, where it is said."""
        return _whole(name, self.request.query_params.get(name, ""))

    def respond_with_entry(self, name: str, *, status: int = 200) -> Response:
        """Return one of them in full."""
        entry = override_editor.find(self.kind.section, name)
        self.title = entry.name
        answer = self._entry_response(entry, status=status)
        # Weak, for beside it stand figures that change by themselves.
        answer["ETag"] = f'W/"{entry.version}"'
        return answer

    def _entry_response(self, entry: Entry, *, status: int) -> Response:
        if self.request.accepted_renderer.format == "yaml":
            return self.respond(entry.text, status=status)
        details = self.kind.load_details(entry.name, entry.value)
        before = self.optional_query_int("before")
        data = entry_schemas.detailed(entry, details, before=before)
        page = {**self.page_context(), "entry": entry, "details": details}
        return self.respond(data, status=status, page=lambda: page)

    def page_context(self) -> dict[str, Any]:
        """Return what every page of the kind needs besides."""
        return {"kind": self.kind, "lead": "", "place": self.kind.list_url}

    def own_files(self, text: str, name: str | None) -> Sequence[str]:
        """Return the files that a draft's problems are reported in as its own."""
        section = self.kind.section
        return entry_validation.files(section, name or _name_in(section, text))

    def form_context(
        self, *, yaml: str, to: str, method: str, name: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the context of the form."""
        self.template = FORM  # type: ignore[misc]
        form = {"yaml": yaml, "to": to, "method": method, "name": name}
        editor = {
            "at": f"{self.kind.section.key}/0",
            "check": f"{to}/check",
            "own_files": self.own_files(yaml, name),
        }
        return {**self.page_context(), **form, **editor, **more}


def _whole(name: str, said: str) -> int | None:
    if said == "":
        return None
    if not said.isdecimal() or len(said) > 18:
        raise Invalid(f"'{name}' must be a whole number", param=name)
    return int(said)


def _name_in(section: Section[Any], text: str) -> str | None:
    """Return what a text that may be wrong calls itself."""
    try:
        return entry_validation.own_name(section, text)
    except ConfigInvalid:
        return None
