"""Request and response schemas of the file's addresses, from the config schema.

Each section has its own path in the document, so clients know its fields. Values are as
written in the file, so a placeholder may replace any of them. The schemas have no
defaults, since clients would write all of them.
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
"""Operations on every section, by their names for one that always exists."""
DATA_MEDIA_TYPES = ("application/json", "application/yaml")


def describe_paths(
    paths: Schema, addresses: Mapping[str, str]
) -> tuple[Schema, Schema]:
    """Return the paths with the file's schemas, and the schemas by their names.

    `addresses` maps the sections with their own address to that address.
    """
    shapes = _file_schemas()
    known = sections.registered_sections()
    own = {key: path for key, path in addresses.items() if key in known}
    settings = {f"/admin/settings/{key}": key for key in known if key not in own}
    found = {
        path: item for path, item in paths.items() if path not in addresses.values()
    }
    any_section = found.pop(ANY_SECTION)
    for path, key in settings.items():
        found[path] = _single_operations(any_section, key)
    found |= {path: paths[path] for path in own.values()}
    places = {**settings, **{path: key for key, path in own.items()}}
    places["/admin/memory"] = "memory"
    for path, key in places.items():
        _fill_operations(found[path], _section_name(key), get=True)
    for key in ENTRY_SECTIONS:
        _fill_operations(found[f"/admin/{key}/{{name}}"], _entry_name(key), get=True)
        post = found[f"/admin/{key}"]["post"]
        _fill_operations(
            {"post": post}, _entry_name(key), request=f"New{_entry_name(key)}"
        )
        shapes[f"New{_entry_name(key)}"] = _named(shapes[_entry_name(key)])
    _fill_operations(found["/admin/config"], FILE_SCHEMA, get=True)
    return dict(sorted(found.items())), shapes


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
    properties, shapes = whole["properties"], {}
    for name, shape in whole["$defs"].items():
        shapes[_schema_name(name)] = _plain_schema(shape)
    for key in sections.registered_sections():
        shape = _plain_schema(_not_null(properties[key]))
        is_whole = shape.get("type") in ("array", "object")
        shapes[_section_name(key)] = shape if is_whole else _or_empty(shape)
    shapes[FILE_SCHEMA] = {
        "type": "object",
        "description": "All of coulisse.yaml, as it is written.",
        "properties": {
            key: _ref(_section_name(key)) for key in sections.registered_sections()
        },
        "required": whole["required"],
        "additionalProperties": False,
    }
    for key in ENTRY_SECTIONS:
        shape = shapes[_section_name(key)]
        model = shape["additionalProperties"]["anyOf"][0]["$ref"].rpartition("/")[2]
        shapes[_entry_name(key)] = shapes.pop(model)
        _rename_schema(shapes, model, _entry_name(key))
    return shapes


def _schema_name(name: str) -> str:
    key, _, model = name.rpartition(".")
    return f"{_pascal(key)}{model}Written" if key else model


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _not_null(shape: Schema) -> Schema:
    """Return the schema of a section without `null`."""
    match shape.get("anyOf"):
        case [one, {"type": "null"}]:
            more = {name: it for name, it in shape.items() if name != "anyOf"}
            return {**one, **more}
    return shape


def _or_empty(shape: Schema) -> Schema:
    """Return the schema of a text that is empty if the file has none."""
    unset = {"type": "string", "maxLength": 0, "description": "Not set."}
    return {"description": shape.pop("description", ""), "anyOf": [shape, unset]}


def _plain_schema(node: Any) -> Any:
    """Return a schema without defaults and titles, with references to ours."""
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


def _rename_schema(shapes: Schema, old: str, new: str) -> None:
    for node in _iterate_nodes(shapes):
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


def _named(shape: Schema) -> Schema:
    name = {"type": "string", "description": "Of a provider its `kind` will do."}
    more = {"properties": {"name": name, **shape["properties"]}}
    return {**shape, **more, "description": "An entry, and what it is called."}


def _single_operations(item: Schema, key: str) -> Schema:
    """Return the operations of any section as those of one section."""
    made = copy.deepcopy(item)
    for operation in made.values():
        verb = SINGLE_VERBS[operation["operationId"].rpartition("_")[2]]
        operation["operationId"] = f"settings_{key}_{verb}"
        operation["parameters"] = [
            each for each in operation.get("parameters", []) if each["in"] != "path"
        ]
    return made


def _fill_operations(
    item: Schema, name: str, *, request: str = "", get: bool = False
) -> None:
    for operation in item.values():
        if get and operation["operationId"].endswith(("_create", "_delete")):
            continue
        for status, answer in operation["responses"].items():
            if status < "300":
                answer["content"] = {
                    kind: {"schema": _ref(name)} for kind in DATA_MEDIA_TYPES
                }
        if "requestBody" in operation:
            body = {
                kind: {"schema": _ref(request or name)} for kind in DATA_MEDIA_TYPES
            }
            operation["requestBody"]["content"] = body
