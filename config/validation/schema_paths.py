"""Look up one location in a section's JSON Schema."""

from collections.abc import Iterable, Iterator
from typing import Any

from config.sections import Location

Schema = dict[str, Any]

CHOICE_KEYWORDS = {"$ref", "allOf", "anyOf", "oneOf"}
"""Keywords that refer to other nodes."""


def fields_at(schema: Schema, steps: Location) -> list[str]:
    """Return the field names allowed at a location."""
    return [
        name for node in _nodes_at(schema, steps) for name in node.get("properties", {})
    ]


def is_secret(schema: Schema, steps: Location) -> bool:
    """Return whether the schema marks a location as secret (pydantic's `SecretStr`)."""
    return any(node.get("writeOnly") is True for node in _nodes_at(schema, steps))


def number_type(schema: Schema, steps: Location) -> str | None:
    """Return the number type at a location in words; None if others are allowed."""
    kinds = {
        node.get("type")
        for node in _nodes_at(schema, steps)
        if not node.keys() & CHOICE_KEYWORDS
    }
    numbers = kinds & {"integer", "number"}
    if not numbers or kinds - {"integer", "null", "number", "string"}:
        return None
    return "a number" if "number" in numbers else "a whole number"


def declares(nodes: Iterable[Schema], step: str | int) -> bool:
    """Return whether the schema declares a name, rather than allowing any."""
    return any(step in node.get("properties", {}) for node in nodes)


def _nodes_at(schema: Schema, steps: Location) -> list[Schema]:
    nodes = root_nodes(schema)
    for step in steps:
        nodes = child_nodes(schema, nodes, step)
    return nodes


def root_nodes(schema: Schema) -> list[Schema]:
    return list(_alternatives(schema, schema))


def child_nodes(
    schema: Schema, nodes: Iterable[Schema], step: str | int
) -> list[Schema]:
    """Return all schema nodes one step below the location of `nodes`."""
    children = (child for node in nodes for child in _children(node, step))
    return [found for child in children for found in _alternatives(schema, child)]


def _alternatives(root: Schema, node: Schema) -> Iterator[Schema]:
    """Yield the node behind a reference, and every branch of a choice."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        yield from _alternatives(root, root["$defs"][name])
    for keyword in CHOICE_KEYWORDS - {"$ref"}:
        for branch in node.get(keyword, ()):
            yield from _alternatives(root, branch)
    yield node


def _children(node: Schema, step: str | int) -> Iterable[Schema]:
    if isinstance(step, int):
        children = [node.get("items")]
    elif step in node.get("properties", {}):
        children = [node["properties"][step]]
    else:
        children = [node.get("additionalProperties")]
    return [child for child in children if isinstance(child, dict)]
