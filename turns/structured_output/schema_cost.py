"""A subset of JSON Schema that is cheap to compile and check, even for hostile schemas.

A schema of this subset has no pattern, no reference and nothing else with more than
linear cost: checking a reply takes at most the schema's values times the reply's bytes
in steps (`test_schema_cost.py` counts them). A child process checks all other schemas.

Explaining why a reply fails costs more: for `anyOf` and `oneOf` the library makes an
error object for each place where an alternative fails, which takes up to 400 times as
long as the check.
"""

from dataclasses import dataclass
from typing import Any

MAX_BYTES = 10_000
"""Maximum size of a schema. Its validator takes up to 70 times as much, within 3 ms."""
MAX_DEPTH = 32
MAX_WORK = 1_000_000
"""Maximum product of a schema's values and a reply's bytes for a check on the event
loop. The worst schema found takes 60 ms.
"""
MAX_EXPLAINED_WORK = 16_000
"""Maximum product of the alternatives' values and a reply's bytes for an explanation on
the event loop: 60 ms at most, too.
"""
MIN_WEIGHT = 32
"""Minimum weight of a schema, because some keywords cost more than others."""

DIALECTS = {
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
}
FORMATS = {
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uri",
    "uuid",
}
"""Formats that are matched in linear time."""

ANNOTATIONS = {
    "$comment",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
}
"""Keywords that no check reads."""
SCALARS = {
    "const",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "type",
    "uniqueItems",
}
"""Keywords with a scalar."""
SCALAR_LISTS = {"enum", "required", "type"}
"""Keywords with a list of scalars. An `enum` of objects is not cheap: the library
compares a reply's value with each of them. Nor is `multipleOf`, which takes 0.1 ms for
fractions of 300 digits.
"""
SCHEMAS = {
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
}
"""Keywords with a schema or a list of schemas. `not` is not cheap: the library keeps a
copy of the schema at every level.
"""

ALTERNATIVES = {"anyOf", "oneOf"}
BOUNDS = {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"}
"""Keywords that count three times, because comparing large fractions is slow."""


@dataclass(frozen=True, slots=True)
class SchemaWeight:
    """The number of values in a schema of the subset, without annotations."""

    total: int
    alternatives: int = 0
    """The number of those in `anyOf` and `oneOf`."""

    def is_checkable_inline(self, reply_bytes: int) -> bool:
        """Whether a reply of this length is checked on the event loop."""
        return self.total * reply_bytes <= MAX_WORK

    def is_explainable_inline(self, reply_bytes: int) -> bool:
        """Whether its mismatch is explained there, too."""
        return self.alternatives * reply_bytes <= MAX_EXPLAINED_WORK


class _NotCheap(Exception):
    """The schema is not in the subset."""


def weight(schema: Any, size_bytes: int) -> SchemaWeight | None:
    """Return the weight of a schema of the subset; None for any other schema.

    `size_bytes` is its length as JSON.
    """
    if size_bytes > MAX_BYTES:
        return None
    level, total, alternatives = [(schema, False)], 0, 0
    try:
        for _ in range(MAX_DEPTH):
            inner: list[tuple[Any, bool]] = []
            for each, is_alternative in level:
                count = 1 + _count_values(each, inner, is_alternative)
                total += count
                alternatives += count if is_alternative else 0
            if not inner:
                return SchemaWeight(max(total, MIN_WEIGHT), alternatives)
            level = inner
    except _NotCheap:
        pass
    return None


def _count_values(
    schema: Any, inner: list[tuple[Any, bool]], is_alternative: bool
) -> int:
    """Return how many plain values a schema has; add its subschemas to `inner`."""
    if isinstance(schema, bool):
        return 0
    if not isinstance(schema, dict):
        raise _NotCheap
    count = 0
    for keyword, value in schema.items():
        if (schemas := _subschemas(keyword, value)) is not None:
            within = is_alternative or keyword in ALTERNATIVES
            inner += ((each, within) for each in schemas)
        else:
            count += _count_keyword(keyword, value)
    return count


def _subschemas(keyword: str, value: Any) -> list[Any] | None:
    """Return the schemas of a keyword; None for one that has none."""
    if keyword in SCHEMAS:
        return value if isinstance(value, list) else [value]
    if keyword == "properties" and isinstance(value, dict):
        return list(value.values())
    return None


def _count_keyword(keyword: str, value: Any) -> int:
    """Return how many values a keyword without schemas has."""
    if keyword in SCALAR_LISTS and isinstance(value, list):
        return _count_scalars(value)
    if keyword in SCALARS:
        return _count_scalars([value]) * (3 if keyword in BOUNDS else 1)
    if keyword not in ANNOTATIONS and not _is_cheap_text(keyword, value):
        raise _NotCheap
    return 0


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
