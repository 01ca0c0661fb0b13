"""All of `coulisse.yaml`: shown, written, checked while it is typed."""

from collections.abc import Mapping
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from config import live, sections
from config.editing import file_editor
from config.editing.file_editor import File
from config.editing.round_trip import key_paths
from config.errors import ConfigInvalid
from config.validation import json_schema
from core.errors import Invalid
from studio.base import formats
from studio.base.error_responses import Problems, invalid
from studio.base.html_renderer import PageRenderer
from studio.base.views import WRITTEN, Face
from studio.configuration.yaml_base_views import VERSION, Written

EDITOR = "/admin/config/edit"


class ConfigFile(Written):
    """`/admin/config`: YAML, as it is written, unless JSON is asked for."""

    title = "coulisse.yaml"
    template = "studio/file/edit.html"
    renderer_classes = [formats.Yaml, formats.Json, PageRenderer]

    @extend_schema(
        summary="Show the file, without its secrets", responses=OpenApiTypes.ANY
    )
    def get(self, request: Request) -> Response:
        return self.respond_with_file(file_editor.read())

    def respond_with_file(self, file: File) -> Response:
        """Return the file, as it was asked for."""
        if self.wants_html:
            answer = self.respond({}, page=lambda: self.form_context(file))
            return self.with_etag(file, answer)
        is_json = self.request.accepted_renderer.format == "json"
        return self.with_etag(file, self.respond(file.data if is_json else file.text))

    @extend_schema(
        summary="Write the file",
        parameters=[VERSION],
        request=OpenApiTypes.ANY,
        responses=OpenApiTypes.ANY,
    )
    def put(self, request: Request) -> HttpResponseBase:
        if self.is_yaml_text():
            file = self.run_recorded({}, file_editor.write, self.yaml_text())
        elif self.is_form:
            raise Invalid(f"The form needs the field '{WRITTEN}'", param=WRITTEN)
        else:
            file = self.run_recorded({}, file_editor.write_data, self.body_data())
        if self.wants_html:
            return self.confirm_change({}, said=self.change_message("Saved coulisse.yaml"), to=EDITOR)
        return self.respond_with_file(file)

    def form_context(self, file: File) -> dict[str, Any]:
        """Return the form with what the file says, or said when it could be read."""
        stands = False
        try:
            text, problem = file.text, None
        except ConfigInvalid as exc:
            text, problem = "", exc
        if problem is None and file.is_broken:
            problem = file_editor.fault(file)
        elif problem is None:
            problem = live.refused()
            stands = problem is not None
        shown = invalid(problem)["error"] if problem else None
        said = {"yaml": text, "version": file.version}
        how = {"broken": shown, "stands": stands, "is_gone": file.is_missing}
        return {**_shell(), **said, **how}

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form as it was filled in."""
        return {**_shell(), **self.submitted_form_context(lambda file: file.text)}


class ConfigEditor(ConfigFile):
    """`/admin/config/edit`: the same for browsers."""

    renderer_classes = Face.renderer_classes

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return super().get(request)

    @extend_schema(exclude=True)
    def put(self, request: Request) -> HttpResponseBase:
        return super().put(request)


def _shell() -> dict[str, Any]:
    return {
        "lead": "The whole file, but for its secrets. It is judged before it is saved.",
        "to": EDITOR,
        "method": "PUT",
        "at": "",
    }


class FileSchema(BaseModel):
    """A JSON Schema, draft 2020-12."""

    dialect: str = Field(alias="$schema")
    title: str
    type: Literal["object"]
    properties: dict[str, dict[str, Any]] = Field(description="A schema by section.")
    required: list[str]
    additional_properties: Literal[False] = Field(alias="additionalProperties")
    definitions: dict[str, dict[str, Any]] = Field(
        alias="$defs", description="What the sections refer to."
    )


class ConfigSchema(Face):
    """`/admin/config/schema`: what editors complete by."""

    renderer_classes = [formats.Json, formats.Yaml]

    @extend_schema(summary="Show the JSON Schema of the file", responses=FileSchema)
    def get(self, request: Request) -> Response:
        return self.respond(json_schema.of(sections.registered().values()))


class Draft(BaseModel):
    """A text that may be saved."""

    yaml: str = Field(max_length=2 * 1024 * 1024)
    at: str = Field(
        "",
        description="Where: `telemetry`, `providers/openai`, with ~1 for the slash of "
        "a name; the file.",
    )


class ConfigCheck(Face):
    """`/admin/config/check`: what is wrong with a text that is being typed."""

    renderer_classes = [formats.Json, formats.Yaml]

    @extend_schema(
        operation_id="config_check",
        summary="Judge a text, and write nothing",
        request=Draft,
        responses=Problems,
    )
    def post(self, request: Request) -> Response:
        draft = self.parse_body(Draft)
        if draft.at:
            problems = file_editor.check_at(key_paths.pointed(draft.at), draft.yaml)
        else:
            problems = file_editor.check(draft.yaml)
        told = invalid(ConfigInvalid(problems))["error"]["problems"]
        return self.respond({"problems": told})
