"""The JSON Schema of the file, and checks of unsaved texts, for editors."""

from typing import Any, Literal

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from admin_base.formats import data_formats
from config import sections
from config.editing import document, file_editor
from config.errors import ConfigInvalid
from config.validation import json_schema
from studio.base.error_responses import ConfigProblemList, invalid_config_body
from studio.base.views import StudioView


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

    renderer_classes = [data_formats.JsonRenderer, data_formats.YamlRenderer]

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

    renderer_classes = [data_formats.JsonRenderer, data_formats.YamlRenderer]

    @extend_schema(
        operation_id="config_check",
        summary="Validate a text without saving it",
        request=ConfigDraft,
        responses=ConfigProblemList,
    )
    def post(self, request: Request) -> Response:
        draft = self.parse_body(ConfigDraft)
        problems = file_editor.check_text(document.from_pointer(draft.at), draft.yaml)
        body = invalid_config_body(ConfigInvalid(problems))
        return self.respond({"problems": body["error"]["problems"]})
