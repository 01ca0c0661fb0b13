"""Whether answers are as the studio's description says."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
from django.conf import settings
from drf_spectacular.generators import SchemaGenerator

from studio.openapi.document import iterate_operations


@cache
def whole() -> dict[str, Any]:
    """Return the description."""
    generator = SchemaGenerator(urlconf=settings.COULISSE_STUDIO_URLCONF)
    return dict(generator.get_schema(request=None, public=True))


@cache
def _places() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    """Return every operation's method, address and self, the narrowest first."""
    found = [
        (method, re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(path))), operation)
        for path, method, operation in iterate_operations(whole())
    ]
    # A name may have slashes, and `{name}/reset` is not a name.
    return sorted(found, key=lambda place: -len(place[1].pattern.replace(".+", "")))


def operation_of(method: str, path: str) -> dict[str, Any]:
    """Return what is described of an address."""
    address = path.partition("?")[0]
    return next(
        operation
        for verb, pattern, operation in _places()
        if verb == method.lower() and pattern.fullmatch(address)
    )


def wrong(method: str, path: str, answer: Any) -> Iterator[str]:
    """Yield what of an answer in JSON is not as it is described."""
    told = operation_of(method, path)["responses"].get(str(answer.status_code))
    place = f"{method} {path}: {answer.status_code}"
    if told is None:
        yield f"{place} is not described"
        return
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    if kind not in told.get("content", {}):
        yield f"{place} is told as {kind or 'nothing'}"
    if kind != "application/json":
        return
    schema = told["content"][kind]["schema"]
    checker = jsonschema.Draft202012Validator(
        {**schema, "components": whole()["components"]},
        format_checker=jsonschema.FormatChecker(),
    )
    for problem in checker.iter_errors(answer.json()):
        yield f"{place}: {problem.json_path}: {problem.message[:200]}"
    yield from _unknown(schema, answer.json(), place)


def _unknown(schema: Any, value: Any, place: str) -> Iterator[str]:
    """Yield the fields of a value that no shape of it has."""
    if isinstance(value, dict):
        fields, rest = _fields(schema)
        for name, each in value.items():
            shapes = fields.get(name, []) + rest
            if fields and not shapes:
                yield f"{place}: nobody describes '{name}'"
            yield from _unknown({"anyOf": shapes}, each, f"{place}.{name}")
    elif isinstance(value, list):
        items = [shape["items"] for shape in _shapes(schema) if "items" in shape]
        for each in value[:20]:
            yield from _unknown({"anyOf": items}, each, place)


def _fields(schema: Any) -> tuple[dict[str, list[Any]], list[Any]]:
    fields: dict[str, list[Any]] = {}
    rest: list[Any] = []
    for shape in _shapes(schema):
        for name, field in shape.get("properties", {}).items():
            fields.setdefault(name, []).append(field)
        more = shape.get("additionalProperties")
        if more:
            rest.append({} if more is True else more)
    return fields, rest


def _shapes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all that a shape may be, references followed."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from _shapes(whole()["components"]["schemas"][name])
    yield schema
    for word in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(word, []):
            yield from _shapes(each)
