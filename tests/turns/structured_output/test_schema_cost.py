"""Every schema of the subset is cheap to compile and to check."""

import itertools
from functools import partial
from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import growth
from turns.structured_output import schema_cost, schema_worker
from turns.structured_output.schema_cost import SchemaWeight

MAX_ERRORS = 9_000
"""Errors of one explanation; each takes 5 to 20 µs, depending on its depth."""
COUNTED_WORK = schema_cost.MAX_WORK // 20
"""Smaller than in production, because counting slows each step."""
SIZES = (2**8, 2**11, 2**14)
"""Size of a reply."""

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
            "format": st.sampled_from(sorted(schema_cost.FORMATS)),
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
DIALECT = st.sampled_from([None, *sorted(schema_cost.DIALECTS)])


def weight_of(schema: Any) -> SchemaWeight | None:
    return schema_cost.weight(schema, len(orjson.dumps(schema)))


def reply_of(element: Any, size: int) -> list[Any]:
    """Return a list of this element, of about `size` bytes."""
    return [element] * (size // (len(orjson.dumps(element)) + 1))


class Counter:
    """A keyword that counts how often its schema is applied to a value."""

    steps = 0

    def __init__(self, *_: object) -> None:
        pass

    def validate(self, _: object) -> None:
        Counter.steps += 1


def counted(schema: Any) -> Any:
    """Return the schema with a counter in front of each subschema."""
    if isinstance(schema, dict):
        schema = {key: _counted_keyword(key, value) for key, value in schema.items()}
    return {"allOf": [{"counted": True}, schema]}


def _counted_keyword(keyword: str, value: Any) -> Any:
    if keyword == "properties":
        return {name: counted(each) for name, each in value.items()}
    if keyword not in schema_cost.SCHEMAS:
        return value
    return [counted(v) for v in value] if isinstance(value, list) else counted(value)


def compiled(schema: Any) -> Any:
    """Return a validator, or None if the library refuses the schema."""
    try:
        return schema_worker.compile_schema(schema)
    except ValueError:
        return None


def steps(schema: Any, reply: Any) -> int:
    """Return how often a schema or a subschema is applied in a check."""
    validator = jsonschema_rs.validator_for(
        counted(schema), keywords={"counted": Counter}, offline=True
    )
    Counter.steps = 0
    validator.is_valid(reply)
    return Counter.steps


def errors(validator: Any, reply: Any) -> int:
    """Return how many error objects an explanation takes."""
    try:
        validator.validate(reply)
    except jsonschema_rs.ValidationError as exc:
        return errors_within(exc)
    return 0


def errors_within(error: Any) -> int:
    lists = getattr(error.kind, "context", None) or []
    return 1 + sum(errors_within(each) for each in itertools.chain(*lists))


def is_cheap(schema: Any, element: Any) -> bool:
    """Whether checks take no more steps, and explanations no more errors, than counted.

    A boolean that is an element of a list has few bytes for a step: at least two.
    """
    weight, validator = weight_of(schema), compiled(schema)
    if weight is None or validator is None:
        return True
    reply = reply_of(element, COUNTED_WORK // weight.total)
    size = len(orjson.dumps(reply))
    explained = reply_of(
        element, schema_cost.MAX_EXPLAINED_WORK // max(weight.alternatives, 1)
    )
    return (
        steps(schema, reply) <= weight.total * (size + 1)
        and errors(validator, explained) <= MAX_ERRORS
    )


def is_linear(schema: Any, element: Any) -> bool:
    """Whether a check takes time in proportion to its reply."""
    validator = compiled(schema)
    replies = (reply_of(element, size) for size in SIZES)
    checks = [partial(schema_worker.is_valid, validator, reply) for reply in replies]
    return all(
        growth.grows_slowly(short, long) for short, long in itertools.pairwise(checks)
    )


@settings(max_examples=50)
@given(schema=SCHEMAS, reply=REPLIES, dialect=DIALECT)
def test_any_schema_of_the_subset_is_cheap(schema, reply, dialect):
    schema = {"items": schema} | ({"$schema": dialect} if dialect else {})
    if weight_of(schema) is None:
        assert len(orjson.dumps(schema)) > schema_cost.MAX_BYTES
    assert is_cheap(schema, reply)


def nested(keyword: str, *beside: Any) -> Any:
    """Return a schema as deep as the subset has them."""
    schema: Any = {"type": "integer"}
    for _ in range(schema_cost.MAX_DEPTH - 2):
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


LISTS = ("anyOf", "allOf", "oneOf")
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
    **{f"nested {k}": nested(k, *[{"minLength": 1}] * 3) for k in LISTS},
    **{f"{k} of failing items": nested(k, {"items": False}) for k in LISTS},
}
ELEMENTS: list[Any] = [
    0,
    -1,
    2.5e300,
    True,
    None,
    "x",
    "a" * 3000,
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
    "a." * 1500,
    "1" * 3000,
    "http://" + "a:" * 1500,
    {"a": -1, "b": [0] * 50},
    {str(number): number for number in range(100)},
    deep(1),
]


@pytest.mark.parametrize("name", LARGEST)
def test_largest_schemas_of_the_subset_are_cheap(name):
    assert weight_of(LARGEST[name]) is not None
    for element in ELEMENTS:
        assert is_cheap(LARGEST[name], element)


@pytest.mark.parametrize("name", LARGEST)
def test_checks_by_the_largest_schemas_are_linear(name):
    for element in ELEMENTS:
        assert is_linear(LARGEST[name], element)


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
        {"title": "x" * schema_cost.MAX_BYTES},
        {"items": {"items": nested("items")}},
        5,
    ],
)
def test_other_schemas_are_left_to_a_child(schema):
    assert schema_cost.weight(schema, len(orjson.dumps(schema))) is None


@pytest.mark.parametrize(
    ("schema", "weight"),
    [
        (True, SchemaWeight(32)),
        ({}, SchemaWeight(32)),
        ({"enum": list(range(50))}, SchemaWeight(51)),
        ({"allOf": [{"minimum": 1}] * 20}, SchemaWeight(81)),
        ({"anyOf": [{"const": 1}, {"items": {"type": "null"}}]}, SchemaWeight(32, 5)),
        ({"items": {"oneOf": [True] * 40}, "enum": [1, 2]}, SchemaWeight(44, 40)),
    ],
)
def test_weight_counts_values(schema, weight):
    assert weight_of(schema) == weight


def test_annotations_weigh_nothing():
    schema = {"title": "A", "examples": [{"a": list(range(500))}], "default": {}}
    assert schema_cost.weight(schema, 2000) == SchemaWeight(schema_cost.MIN_WEIGHT)
