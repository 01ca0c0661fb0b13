"""Describes the addresses of the file for OpenAPI, from the configuration's schema.

Values are as written in the file, so a placeholder may replace any of them. The schemas
have no defaults, because clients would write all of them.
"""

from typing import Any

from drf_spectacular.utils import OpenApiParameter

from config import sections
from config.validation import json_schema
from studio.base.operation_names import StudioAutoSchema
from studio.configuration.entry_schemas import DeletedEntry

Schema = dict[str, Any]

DATA_MEDIA_TYPES = ("application/json", "application/yaml")
FILE_SCHEMA = "ConfigFile"
ENTRY_SCHEMAS = {
    "mcp.ToolServerConfig": "McpServerEntry",
    "providers.ProviderConfig": "ProviderEntry",
}
"""Names of the entries that have addresses, by section and class."""
VERSION_PARAMETER = OpenApiParameter(
    "version",
    str,
    description="The version that you loaded (its ETag). The request fails with 409 if "
    "the file has changed. `If-Match` is equivalent.",
)
SUMMARIES = {
    "GET": "Show {part} with masked secrets",
    "PUT": "Replace {part}",
    "DELETE": "Remove {part}",
    "POST": "Add an entry to the file",
}


class FileAutoSchema(StudioAutoSchema):
    """Describes a `FileView` by its section."""

    @property
    def _key(self) -> str:
        view: Any = self.view
        return str(view.key)

    def get_summary(self) -> str:
        part = "this part of the file" if self._key else "the file"
        return SUMMARIES[self.method].format(part=part)

    def get_description(self) -> str:  # type: ignore[override]  # as the library
        """Return what a section needs besides the summary."""
        if self.method != "PUT" or not self._key:
            return str(super().get_description())
        return "`null` removes it from the file. A request without a body is refused."

    def get_override_parameters(self) -> list[Any]:
        """Return the parameters of a change."""
        return [] if self.method == "GET" else [VERSION_PARAMETER]

    def get_request_serializer(self) -> Any:
        if self.method not in ("POST", "PUT"):
            return None
        is_new = self.method == "POST"
        name = f"New{entry_name(self._key)}" if is_new else self._part_name()
        return {kind: _ref(name) for kind in DATA_MEDIA_TYPES}

    def get_response_serializers(self) -> Any:
        if self.method == "DELETE":
            return {200: DeletedEntry}
        if self.method == "POST":
            return {201: _ref(entry_name(self._key))}
        return {200: _ref(self._part_name())}

    def _part_name(self) -> str:
        if "{name}" in self.path:
            return entry_name(self._key)
        return section_name(self._key) if self._key else FILE_SCHEMA


def section_name(key: str) -> str:
    """Return the schema name of a section."""
    return f"{_pascal(key)}Section"


def entry_name(key: str) -> str:
    """Return the schema name of a section's entries."""
    return next(it for name, it in ENTRY_SCHEMAS.items() if name.startswith(f"{key}."))


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def build_schemas() -> Schema:
    """Return the schemas of the file, its sections and their parts, by name."""
    keys = sections.registered_sections()
    whole = json_schema.build_schema(keys.values())
    schemas = {_schema_name(it): _plain(each) for it, each in whole["$defs"].items()}
    for key in keys:
        schema = _plain(_not_null(whole["properties"][key]))
        is_container = schema.get("type") in ("array", "object")
        schemas[section_name(key)] = schema if is_container else _or_empty(schema)
    for name in ENTRY_SCHEMAS.values():
        schemas[f"New{name}"] = _with_name(schemas[name])
    schemas[FILE_SCHEMA] = {
        "type": "object",
        "description": "The content of coulisse.yaml.",
        "properties": {key: _ref(section_name(key)) for key in keys},
        "required": whole["required"],
        "additionalProperties": False,
    }
    return schemas


def _schema_name(name: str) -> str:
    key, _, model = name.rpartition(".")
    return ENTRY_SCHEMAS.get(name) or (f"{_pascal(key)}{model}Yaml" if key else model)


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _not_null(schema: Schema) -> Schema:
    """Return the schema of a section without `null`."""
    match schema.get("anyOf"):
        case [value, {"type": "null"}]:
            rest = {name: it for name, it in schema.items() if name != "anyOf"}
            return {**value, **rest}
    return schema


def _or_empty(schema: Schema) -> Schema:
    """Return the schema of a text that is empty if the file has none."""
    unset = {"type": "string", "maxLength": 0, "description": "Not set."}
    return {"description": schema.pop("description", ""), "anyOf": [schema, unset]}


def _plain(node: Any) -> Any:
    """Return a schema without defaults and titles, with this document's references."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _ref(_schema_name(node["$ref"].removeprefix("#/$defs/")))
    plain = {}
    for name, value in node.items():
        if name == "properties":
            plain[name] = {key: _plain(field) for key, field in value.items()}
        elif name not in ("default", "discriminator", "title", "writeOnly"):
            plain[name] = _plain(value)
    return plain


def _with_name(schema: Schema) -> Schema:
    name = {"type": "string", "description": "By default the `kind` of a provider."}
    return {
        **schema,
        "properties": {"name": name, **schema["properties"]},
        "description": "An entry with its name.",
    }
