"""Request and response schemas of the file's addresses, from the configuration schema.

Each section has its own path in the document, so clients know its fields. Values are as
written in the file, so a placeholder may replace any of them. The schemas have no
defaults, because clients would write all of them.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from config import sections
from config.validation import json_schema

Schema = dict[str, Any]

FILE_SCHEMA = "ConfigFile"
ANY_SECTION = "/admin/settings/{key}"
ENTRY_SECTIONS = ("mcp", "providers")
"""Sections whose entries have addresses."""
SINGLE_VERBS = {"delete": "delete", "retrieve": "show", "update": "write"}
"""The verbs of operations on a section, by those that the generator derives."""
DATA_MEDIA_TYPES = ("application/json", "application/yaml")


def describe_paths(
    paths: Schema, addresses: Mapping[str, str]
) -> tuple[Schema, Schema]:
    """Return the paths with the file's schemas, and the schemas by their names.

    `addresses` maps the sections with their own address to that address.
    """
    schemas = _file_schemas()
    keys = sections.registered_sections()
    own = {key: path for key, path in addresses.items() if key in keys}
    settings = {f"/admin/settings/{key}": key for key in keys if key not in own}
    result = {
        path: item for path, item in paths.items() if path not in addresses.values()
    }
    any_section = result.pop(ANY_SECTION)
    for path, key in settings.items():
        result[path] = _single_operations(any_section, key)
    result |= {path: paths[path] for path in own.values()}
    section_keys = {**settings, **{path: key for key, path in own.items()}}
    section_keys["/admin/memory"] = "memory"
    for path, key in section_keys.items():
        _fill_operations(result[path], _section_name(key), get=True)
    for key in ENTRY_SECTIONS:
        _fill_operations(result[f"/admin/{key}/{{name}}"], _entry_name(key), get=True)
        post = result[f"/admin/{key}"]["post"]
        _fill_operations(
            {"post": post}, _entry_name(key), request=f"New{_entry_name(key)}"
        )
        schemas[f"New{_entry_name(key)}"] = _with_name(schemas[_entry_name(key)])
    _fill_operations(result["/admin/config"], FILE_SCHEMA, get=True)
    return dict(sorted(result.items())), schemas


def _section_name(key: str) -> str:
    """Return the schema name of a section."""
    return f"{_pascal(key)}Section"


def _entry_name(key: str) -> str:
    """Return the schema name of a section's entry."""
    return {"mcp": "McpServerEntry", "providers": "ProviderEntry"}[key]


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _file_schemas() -> Schema:
    whole = json_schema.build_schema(sections.registered_sections().values())
    properties, schemas = whole["properties"], {}
    for name, schema in whole["$defs"].items():
        schemas[_schema_name(name)] = _plain_schema(schema)
    for key in sections.registered_sections():
        schema = _plain_schema(_not_null(properties[key]))
        is_container = schema.get("type") in ("array", "object")
        schemas[_section_name(key)] = schema if is_container else _or_empty(schema)
    schemas[FILE_SCHEMA] = {
        "type": "object",
        "description": "The content of coulisse.yaml.",
        "properties": {
            key: _ref(_section_name(key)) for key in sections.registered_sections()
        },
        "required": whole["required"],
        "additionalProperties": False,
    }
    for key in ENTRY_SECTIONS:
        section = schemas[_section_name(key)]
        model = section["additionalProperties"]["anyOf"][0]["$ref"].rpartition("/")[2]
        schemas[_entry_name(key)] = schemas.pop(model)
        _rename_schema(schemas, model, _entry_name(key))
    return schemas


def _schema_name(name: str) -> str:
    key, _, model = name.rpartition(".")
    return f"{_pascal(key)}{model}Yaml" if key else model


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


def _plain_schema(node: Any) -> Any:
    """Return a schema without defaults and titles, with this document's references."""
    if isinstance(node, list):
        return [_plain_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _ref(_schema_name(node["$ref"].removeprefix("#/$defs/")))
    plain = {}
    for name, value in node.items():
        if name == "properties":
            plain[name] = {key: _plain_schema(field) for key, field in value.items()}
        elif name == "discriminator":
            continue
        elif name not in ("default", "title", "writeOnly"):
            plain[name] = _plain_schema(value)
    return plain


def _rename_schema(schemas: Schema, old: str, new: str) -> None:
    for node in _iterate_nodes(schemas):
        if node.get("$ref") == _ref(old)["$ref"]:
            node["$ref"] = _ref(new)["$ref"]


def _iterate_nodes(value: Any) -> Iterator[Schema]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _iterate_nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iterate_nodes(each)


def _with_name(schema: Schema) -> Schema:
    name = {"type": "string", "description": "By default the `kind` of a provider."}
    return {
        **schema,
        "properties": {"name": name, **schema["properties"]},
        "description": "An entry with its name.",
    }


def _single_operations(item: Schema, key: str) -> Schema:
    """Return the operations of any section as those of one section."""
    operations = copy.deepcopy(item)
    for operation in operations.values():
        verb = SINGLE_VERBS[operation["operationId"].rpartition("_")[2]]
        operation["operationId"] = f"settings_{key}_{verb}"
        operation["parameters"] = [
            each for each in operation.get("parameters", []) if each["in"] != "path"
        ]
    return operations


def _fill_operations(
    item: Schema, name: str, *, request: str = "", get: bool = False
) -> None:
    for operation in item.values():
        if get and operation["operationId"].endswith(("_create", "_delete")):
            continue
        for status, response in operation["responses"].items():
            if status < "300":
                response["content"] = {
                    kind: {"schema": _ref(name)} for kind in DATA_MEDIA_TYPES
                }
        if "requestBody" in operation:
            body = {
                kind: {"schema": _ref(request or name)} for kind in DATA_MEDIA_TYPES
            }
            operation["requestBody"]["content"] = body
