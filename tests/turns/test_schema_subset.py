"""The schemas that are compiled in the web process are cheap, whoever wrote them."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import growth
from turns import schema_check, schema_subset

MAX_CPU_SECONDS = 1.0
"""Of a compilation or a check; measured are 3 and 60 ms, on a machine with time."""

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
COUNTS = st.integers(0, 2**31)
NUMBERS = st.integers(-(2**62), 2**62) | st.floats(-1e308, 1e308)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "object", "string"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=6)
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("minLength", "maxItems", "minContains"), COUNTS),
            **dict.fromkeys(("maxLength", "maxProperties"), COUNTS),
            **dict.fromkeys(("minimum", "exclusiveMaximum"), NUMBERS),
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(SCALARS, min_size=1, max_size=30),
            "const": SCALARS,
            "required": st.lists(NAMES, max_size=4, unique=True),
            "uniqueItems": st.booleans(),
            "format": st.sampled_from(sorted(schema_subset.FORMATS)),
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), lists),
            "prefixItems": lists,
            **dict.fromkeys(("items", "contains", "propertyNames"), inner),
            **dict.fromkeys(("if", "then", "else"), inner),
            "additionalProperties": inner,
            "properties": st.dictionaries(NAMES, inner, max_size=4),
        },
    )


SCHEMAS = st.recursive(st.booleans() | _schemas(st.booleans()), _schemas, max_leaves=60)
REPLIES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(NAMES, inner, max_size=4)
    ),
    max_leaves=60,
)
DIALECT = st.sampled_from([None, *sorted(schema_subset.DIALECTS)])


def longest(weight: int, element: Any) -> list[Any]:
    """Return a reply of this element, as long as is still checked here."""
    size = len(orjson.dumps(element)) + 1
    return [element] * (schema_subset.MAX_WORK // weight // size)


def cost(schema: Any, *replies: Any) -> float:
    """Return the CPU seconds of a compilation and of the longest check."""
    weight = schema_subset.weight(schema, len(orjson.dumps(schema)))
    assert weight is not None
    try:
        validator = schema_check.compile_schema(schema)
    except ValueError:
        return seconds(lambda: refused(schema))
    checked = [
        reply
        for reply in replies
        if len(orjson.dumps(reply)) * weight <= schema_subset.MAX_WORK * 1.1
    ]
    return max(
        seconds(lambda: schema_check.compile_schema(schema)),
        *(seconds(partial(schema_check.first_error, validator, r)) for r in checked),
    )


def refused(schema: Any) -> None:
    with contextlib.suppress(ValueError):
        schema_check.compile_schema(schema)


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this thread, the least of a few runs if they are many.

    The process's would count what other tests' servers do in their threads.
    """
    least = growth.once(work)
    for _ in range(growth.TRIES):
        if least < MAX_CPU_SECONDS / 10:
            break
        least = min(least, growth.once(work))
    return least


@settings(max_examples=50)
@given(schema=SCHEMAS, reply=REPLIES, dialect=DIALECT)
def test_any_schema_of_the_subset_is_cheap(schema, reply, dialect):
    schema = {"items": schema} | ({"$schema": dialect} if dialect else {})
    size = len(orjson.dumps(schema))
    weight = schema_subset.weight(schema, size)
    if weight is None:
        assert size > schema_subset.MAX_BYTES
        return
    assert cost(schema, longest(weight, reply)) < MAX_CPU_SECONDS


def nested(keyword: str, *, wide: int = 1) -> Any:
    """Return a schema as deep as the subset has them."""
    schema: Any = {"type": "integer"}
    for _ in range(schema_subset.MAX_DEPTH - 2):
        beside = [{"minLength": 1}] * (wide - 1)
        if keyword == "properties":
            schema = {"properties": {"a": schema}}
        elif keyword.endswith("Of"):
            schema = {keyword: [schema, *beside]}
        else:
            schema = {keyword: schema}
    return schema


def deep(reply: Any, levels: int = 30) -> Any:
    for _ in range(levels):
        reply = [reply]
    return reply


LARGEST = {
    "enum of numbers": {"items": {"enum": list(range(1000, 2900))}},
    "enum of everything": {"items": {"enum": [None, True, *map(str, range(900)), 1.5]}},
    "anyOf const": {"items": {"anyOf": [{"const": n} for n in range(600)]}},
    "oneOf const": {"items": {"oneOf": [{"const": n} for n in range(600)]}},
    "required": {"items": {"allOf": [{"required": ["a"]}] * 400}},
    "unique": {"uniqueItems": True, "items": {"uniqueItems": True}},
    "formats": {"items": {"allOf": [{"format": "email"}, {"format": "uri"}]}},
    "contains": {"items": {"contains": {"contains": {"const": 5}}}},
    "names": {"items": {"propertyNames": {"enum": [str(n) for n in range(900)]}}},
    "discriminated": {
        "items": {
            "anyOf": [
                {"properties": {"a": {"const": n}, "b": True}, "required": ["a"]}
                for n in range(110)
            ]
        }
    },
    "conditions": {"items": {"allOf": [{"if": {"const": 1}, "then": False}] * 200}},
    "bounds": {"items": {"allOf": [{"minimum": 1e-308, "maximum": 1e308}] * 200}},
    **{f"nested {k}": nested(k) for k in ("items", "contains", "properties")},
    **{f"nested {k}": nested(k, wide=4) for k in ("anyOf", "allOf", "oneOf")},
}
ELEMENTS: list[Any] = [
    *(0, -1, 2.5e300, True, None, "x", "a" * 3000, [], {}, [[]], [1, 2], {"a": 1}),
    *("a." * 1500, "1" * 3000, "http://" + "a:" * 1500, {"a": -1, "b": [0] * 50}),
    {str(number): number for number in range(100)},
    deep(1),
]


@pytest.mark.parametrize("name", LARGEST)
def test_largest_schemas_of_the_subset_are_cheap(name):
    schema = LARGEST[name]
    weight = schema_subset.weight(schema, len(orjson.dumps(schema)))
    assert weight is not None
    replies: list[Any] = [longest(weight, element) for element in ELEMENTS]
    replies.append(list(range(len(longest(weight, 10_000)))))
    assert cost(schema, *replies, deep(1, 200)) < MAX_CPU_SECONDS


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"patternProperties": {"a": True}},
        {"properties": {"a": {"items": {"pattern": "a"}}}},
        {"propertyNames": {"pattern": "a"}},
        {"$ref": "#"},
        {"$dynamicRef": "#a"},
        {"$recursiveRef": "#"},
        {"$defs": {}},
        {"$id": "http://127.0.0.1/a"},
        {"$schema": "http://127.0.0.1/meta.json"},
        {"format": "regex"},
        {"format": ["uuid"]},
        {"not": {}},
        {"unevaluatedProperties": False},
        {"unevaluatedItems": False},
        {"dependentSchemas": {}},
        {"contentMediaType": "application/json"},
        {"unheard-of": 1},
        {"enum": [{"a": 1}]},
        {"const": [1]},
        {"items": 5},
        {"properties": []},
        {"multipleOf": 1e-308},
        {"title": "x" * schema_subset.MAX_BYTES},
        {"items": {"items": nested("items")}},
        5,
    ],
)
def test_anything_else_is_left_to_a_child(schema):
    assert schema_subset.weight(schema, len(orjson.dumps(schema))) is None


@pytest.mark.parametrize(
    ("schema", "weight"),
    [(True, 32), ({}, 32), ({"enum": list(range(50))}, 51)],
)
def test_weight_counts_values(schema, weight):
    assert schema_subset.weight(schema, len(orjson.dumps(schema))) == weight


def test_annotations_weigh_nothing():
    schema = {"title": "A", "examples": [{"a": list(range(500))}], "default": {}}
    assert schema_subset.weight(schema, 2000) == schema_subset.MIN_WEIGHT
