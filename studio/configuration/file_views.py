"""The whole `coulisse.yaml`: read, write, and check while typing."""

from collections.abc import Mapping
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from config import live, sections
from config.editing import config_file, file_editor
from config.editing.config_file import ConfigFile
from config.editing.round_trip import key_paths
from config.errors import ConfigInvalid
from config.validation import json_schema
from core.errors import Invalid
from studio.base import formats
from studio.base.error_responses import ConfigProblemList, invalid_config_body
from studio.base.html_renderer import HtmlRenderer
from studio.base.views import YAML_FIELD, StudioView
from studio.configuration.yaml_base_views import VERSION_PARAMETER, YamlView

EDITOR_URL = "/admin/config/edit"


class ConfigFileView(YamlView):
    """`/admin/config`: the YAML text, or JSON if requested."""

    title = "coulisse.yaml"
    template = "studio/configuration/file.html"
    renderer_classes = [formats.YamlRenderer, formats.JsonRenderer, HtmlRenderer]

    @extend_schema(
        summary="Show the file with masked secrets", responses=OpenApiTypes.ANY
    )
    def get(self, request: Request) -> Response:
        return self.respond_with_file(config_file.read_file())

    def respond_with_file(self, file: ConfigFile) -> Response:
        """Return the file in the requested format."""
        if self.wants_html:
            response = self.respond({}, page=lambda: self.form_context(file))
            return self.with_etag(file, response)
        is_json = self.request.accepted_renderer.format == "json"
        return self.with_etag(file, self.respond(file.data if is_json else file.text))

    @extend_schema(
        summary="Replace the file",
        parameters=[VERSION_PARAMETER],
        request=OpenApiTypes.ANY,
        responses=OpenApiTypes.ANY,
    )
    def put(self, request: Request) -> HttpResponseBase:
        if self.is_yaml_text():
            file = self.run_recorded({}, file_editor.write_text, self.yaml_text())
        elif self.is_form:
            raise Invalid(f"The form needs the field '{YAML_FIELD}'", param=YAML_FIELD)
        else:
            file = self.run_recorded({}, file_editor.write_data, self.body_data())
        if self.wants_html:
            return self.confirm_change(
                {},
                message=self.change_message("coulisse.yaml saved"),
                redirect_to=EDITOR_URL,
            )
        return self.respond_with_file(file)

    def form_context(self, file: ConfigFile) -> dict[str, Any]:
        """Return the form with the file's text, or its last valid text."""
        is_text_invalid = False
        try:
            text, problem = file.text, None
        except ConfigInvalid as exc:
            text, problem = "", exc
        if problem is None and file.is_broken:
            problem = config_file.parse_error(file)
        elif problem is None:
            problem = live.file_error()
            is_text_invalid = problem is not None
        return {
            **_page_context(),
            "yaml": text,
            "version": file.version,
            "file_error": invalid_config_body(problem)["error"] if problem else None,
            "is_text_invalid": is_text_invalid,
            "is_missing": file.is_missing,
        }

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted text."""
        return {
            **_page_context(),
            **self.submitted_form_context(lambda file: file.text),
        }


class ConfigEditorView(ConfigFileView):
    """`/admin/config/edit`: the editor for browsers."""

    renderer_classes = StudioView.renderer_classes

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return super().get(request)

    @extend_schema(exclude=True)
    def put(self, request: Request) -> HttpResponseBase:
        return super().put(request)


def _page_context() -> dict[str, Any]:
    return {
        "lead": "The whole file, secrets hidden. Checked before saving.",
        "form_action": EDITOR_URL,
        "method": "PUT",
        "at": "",
    }


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

    renderer_classes = [formats.JsonRenderer, formats.YamlRenderer]

    @extend_schema(
        summary="Show the JSON Schema of the file", responses=ConfigJsonSchema
    )
    def get(self, request: Request) -> Response:
        return self.respond(
            json_schema.build_schema(sections.registered_sections().values())
        )


class ConfigDraft(BaseModel):
    """The unsaved text of the file."""

    yaml: str = Field(max_length=2 * 1024 * 1024)
    at: str = Field(
        "",
        description="The path of the text in the file, such as `telemetry` or "
        "`providers/openai`; `~1` stands for a slash in a name. Empty for the file.",
    )


class CheckConfigView(StudioView):
    """`/admin/config/check`: the problems of an unsaved text."""

    renderer_classes = [formats.JsonRenderer, formats.YamlRenderer]

    @extend_schema(
        operation_id="config_check",
        summary="Validate a text without saving it",
        request=ConfigDraft,
        responses=ConfigProblemList,
    )
    def post(self, request: Request) -> Response:
        draft = self.parse_body(ConfigDraft)
        if draft.at:
            problems = file_editor.check_text_at(
                key_paths.from_pointer(draft.at), draft.yaml
            )
        else:
            problems = file_editor.check_text(draft.yaml)
        body = invalid_config_body(ConfigInvalid(problems))
        return self.respond({"problems": body["error"]["problems"]})
