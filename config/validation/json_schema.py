"""The JSON Schema of the whole file, generated from the validating shapes."""

from collections.abc import Iterable
from typing import Any

from config.sections import Section

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
PLACEHOLDER = {
    "type": "string",
    "pattern": r"\$\{[^}]+\}",
    "description": "Text with a placeholder, replaced before the value is read.",
}
NARROWER_THAN_TEXT = {"const", "enum", "pattern"}
ANNOTATIONS = ("title", "description", "default", "deprecated", "examples")


def build_schema(sections: Iterable[Section[Any]]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a file with these sections."""
    by_key = {section.key: section for section in sections}
    definitions: Schema = {}
    properties = {
        key: _key_schema(section, definitions)
        for key, section in sorted(by_key.items())
    }
    return {
        "$schema": DRAFT,
        "title": "coulisse.yaml",
        "type": "object",
        "properties": properties,
        "required": sorted(s.key for s in by_key.values() if s.required),
        "additionalProperties": False,
        "$defs": {**definitions, "Placeholder": PLACEHOLDER},
    }


def _key_schema(section: Section[Any], definitions: Schema) -> Schema:
    """Return the schema of one key and add referenced schemas to the definitions."""
    template = f"#/$defs/{section.key}.{{model}}"
    schema = section.adapter.json_schema(ref_template=template)
    for name, definition in schema.pop("$defs", {}).items():
        definitions[f"{section.key}.{name}"] = _allow_placeholders(definition)
    schema = _allow_placeholders(schema)
    entry = schema.get("additionalProperties")
    if isinstance(entry, dict) and "$ref" in entry:
        # An entry may have only a name: `local:` with no value.
        schema["additionalProperties"] = {"anyOf": [entry, {"type": "null"}]}
    described = schema.pop("description", "") or section.description
    if not section.required:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {"description": described[:1].upper() + described[1:], **schema}


def _allow_placeholders(node: Any) -> Any:
    """Allow `${…}` wherever a value other than free text is expected."""
    if isinstance(node, list):
        return [_allow_placeholders(item) for item in node]
    if not isinstance(node, dict):
        return node
    opened = dict(node)
    for keyword, value in node.items():
        if keyword == "properties":
            # Its keys are field names, which may equal schema keywords.
            opened[keyword] = {k: _allow_placeholders(v) for k, v in value.items()}
        elif keyword not in ANNOTATIONS:
            opened[keyword] = _allow_placeholders(value)
    if not _is_narrow(node):
        return opened
    outside = {name: opened.pop(name) for name in ANNOTATIONS if name in opened}
    return {**outside, "anyOf": [opened, {"$ref": "#/$defs/Placeholder"}]}


def _is_narrow(node: Schema) -> bool:
    if node.get("type") in ("boolean", "integer", "number"):
        return True
    is_text = node.get("type") == "string" or "enum" in node or "const" in node
    return is_text and bool(NARROWER_THAN_TEXT & node.keys())
