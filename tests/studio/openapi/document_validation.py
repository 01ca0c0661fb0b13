"""Validation of responses against the OpenAPI document of the studio."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
from django.conf import settings
from drf_spectacular.generators import SchemaGenerator

from studio.openapi.document import iterate_operations


@cache
def load_document() -> dict[str, Any]:
    """Return the document."""
    generator = SchemaGenerator(urlconf=settings.COULISSE_STUDIO_URLCONF)
    return dict(generator.get_schema(request=None, public=True))


@cache
def _operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    """Return all operations with method and path pattern, narrowest first."""
    found = [
        (method, re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(path))), operation)
        for path, method, operation in iterate_operations(load_document())
    ]
    # A name may have slashes, and `{name}/reset` is not a name.
    return sorted(found, key=lambda each: -len(each[1].pattern.replace(".+", "")))


def find_operation(method: str, path: str) -> dict[str, Any]:
    """Return the description of an operation."""
    address = path.partition("?")[0]
    return next(
        operation
        for verb, pattern, operation in _operations()
        if verb == method.lower() and pattern.fullmatch(address)
    )


def find_problems(method: str, path: str, response: Any) -> Iterator[str]:
    """Yield the differences of a response from its description."""
    description = find_operation(method, path)["responses"].get(
        str(response.status_code)
    )
    place = f"{method} {path}: {response.status_code}"
    if description is None:
        yield f"{place} is not described"
        return
    media_type = response.headers.get("Content-Type", "").partition(";")[0]
    if media_type not in description.get("content", {}):
        yield f"{place} has the type {media_type or 'none'}"
    if media_type != "application/json":
        return
    schema = description["content"][media_type]["schema"]
    checker = jsonschema.Draft202012Validator(
        {**schema, "components": load_document()["components"]},
        format_checker=jsonschema.FormatChecker(),
    )
    for problem in checker.iter_errors(response.json()):
        yield f"{place}: {problem.json_path}: {problem.message[:200]}"
    yield from _unknown_fields(schema, response.json(), place)


def _unknown_fields(schema: Any, value: Any, place: str) -> Iterator[str]:
    """Yield the fields of a value that are not in its schema."""
    if isinstance(value, dict):
        fields, rest = _fields(schema)
        for name, each in value.items():
            schemas = fields.get(name, []) + rest
            if fields and not schemas:
                yield f"{place}: '{name}' is not described"
            yield from _unknown_fields({"anyOf": schemas}, each, f"{place}.{name}")
    elif isinstance(value, list):
        items = [each["items"] for each in _alternatives(schema) if "items" in each]
        for each in value[:20]:
            yield from _unknown_fields({"anyOf": items}, each, place)


def _fields(schema: Any) -> tuple[dict[str, list[Any]], list[Any]]:
    fields: dict[str, list[Any]] = {}
    rest: list[Any] = []
    for each in _alternatives(schema):
        for name, field in each.get("properties", {}).items():
            fields.setdefault(name, []).append(field)
        more = each.get("additionalProperties")
        if more:
            rest.append({} if more is True else more)
    return fields, rest


def _alternatives(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all alternatives of a schema, with references resolved."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from _alternatives(load_document()["components"]["schemas"][name])
    yield schema
    for word in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(word, []):
            yield from _alternatives(each)
