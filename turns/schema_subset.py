"""JSON Schemas that are cheap to compile and to check, even hostile ones.

A schema of this subset has no pattern, no reference and nothing else whose cost can be
more than linear: the time to check a reply is at most a small constant times the
schema's values times the reply's bytes (`tests/turns/test_schema_subset.py` measures
it). All others are left to a child process.
"""

from typing import Any

MAX_BYTES = 10_000
"""Of a schema: a validator takes up to 70 times its schema's bytes, in 3 ms at most."""
MAX_DEPTH = 32
MAX_WORK = 1_000_000
"""Values of the schema times bytes of a reply that are checked on the event loop: in at
most 60 ms, as long as the worst schema that was found takes."""
MIN_WEIGHT = 32
"""What the smallest schema counts, for a keyword can be dearer than its neighbours."""

DIALECTS = {
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
}
FORMATS = {
    *("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6"),
    *("time", "uri", "uuid"),
}
"""Formats that are matched in linear time."""

ANNOTATIONS = {
    *("$comment", "default", "deprecated", "description", "examples"),
    *("readOnly", "title", "writeOnly"),
}
"""Keywords that no check looks at."""
SCALARS = {
    *("const", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems"),
    *("maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength"),
    *("minProperties", "minimum", "type", "uniqueItems"),
}
"""Keywords with a scalar."""
SCALAR_LISTS = {"enum", "required", "type"}
"""Keywords with a list of scalars. An `enum` of objects is not cheap: the
library compares a reply's value with each of them. Nor is `multipleOf`, which takes
fractions of 300 digits 0.1 ms."""
SCHEMAS = {
    *("additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items"),
    *("oneOf", "prefixItems", "propertyNames", "then"),
}
"""Keywords with a schema or a list of schemas. `not` is not cheap: the library keeps a
copy of the schema at every level."""


class _NotCheap(Exception):
    """The schema is not of the subset."""


def weight(schema: Any, size_bytes: int) -> int | None:
    """Return how many values a schema of the subset has; None for any other schema.

    `size_bytes` is its length as JSON. Annotations are not counted.
    """
    if size_bytes > MAX_BYTES:
        return None
    level, count = [schema], 0
    try:
        for _ in range(MAX_DEPTH):
            count += len(level)
            inner: list[Any] = []
            for each in level:
                count += _read(each, inner)
            if not inner:
                return max(count, MIN_WEIGHT)
            level = inner
    except _NotCheap:
        pass
    return None


def _read(schema: Any, inner: list[Any]) -> int:
    """Return how many plain values a schema has; add its subschemas to `inner`."""
    if isinstance(schema, bool):
        return 0
    if not isinstance(schema, dict):
        raise _NotCheap
    count = 0
    for keyword, value in schema.items():
        if keyword in SCALAR_LISTS and isinstance(value, list):
            count += _count_scalars(value)
        elif keyword in SCALARS:
            count += _count_scalars([value])
        elif keyword in SCHEMAS:
            inner += value if isinstance(value, list) else [value]
        elif keyword == "properties" and isinstance(value, dict):
            inner += value.values()
        elif keyword not in ANNOTATIONS and not _is_cheap_text(keyword, value):
            raise _NotCheap
    return count


def _count_scalars(values: list[Any]) -> int:
    if any(isinstance(each, dict | list) for each in values):
        raise _NotCheap
    return len(values)


def _is_cheap_text(keyword: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    match keyword:
        case "format":
            return value in FORMATS
        case "$schema":
            return value.removesuffix("#") in DIALECTS
    return False
