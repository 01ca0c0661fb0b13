"""Limits on JSON Schemas."""

from functools import partial
from typing import Any

import orjson
import pytest

from core.validation import schema_limits
from core.validation.schema_limits import SchemaTooLarge
from tests import growth


def nested(depth: int) -> Any:
    schema: Any = True
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_schema_within_the_limits_is_written():
    assert schema_limits.check_schema({"type": "object"}) == b'{"type":"object"}'
    assert schema_limits.check_schema(True) == b"true"
    assert schema_limits.check_schema(nested(schema_limits.MAX_DEPTH))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (nested(65), "more than 64 levels deep"),
        (nested(250), "more than 64 levels deep"),
        (nested(900), "more than 64 levels deep"),
        ({"title": "x" * 100_000}, "has 100,012 bytes, more than 100,000"),
        ({"enum": list(range(10_000)) + [[]] * 10_000}, "more than 20,000 values"),
        (
            {"allOf": [{"pattern": str(number)} for number in range(101)]},
            "has 101 patterns, more than 100",
        ),
        (
            {"patternProperties": {str(number): True for number in range(101)}},
            "has 101 patterns, more than 100",
        ),
        ({"pattern": "a" * 1001}, "of 1,001 characters, more than 1,000"),
        ({"$defs": {"a": {"pattern": "a" * 1001}}}, "of 1,001 characters"),
        ({"unknown": [{"pattern": "a" * 1001}]}, "of 1,001 characters"),
        ({"propertyNames": {"pattern": "a" * 1001}}, "of 1,001 characters"),
        (
            {"allOf": [{"pattern": "a" * 999}] * 11},
            "patterns of 10,989 characters in total, more than",
        ),
        ({"title": "\ud800"}, "cannot be written as JSON"),
    ],
)
def test_schema_beyond_a_limit_is_refused_by_its_name(schema, message):
    with pytest.raises(SchemaTooLarge) as refused:
        schema_limits.check_schema(schema)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


def test_property_called_pattern_is_no_pattern():
    named = {"pattern": {"type": "string"}, "patternProperties": {"type": "string"}}
    assert schema_limits.check_schema({"properties": named})


def test_pattern_is_counted_however_its_key_is_written():
    written = r'{"p\u0061ttern": "' + "a" * 1001 + '"}'
    with pytest.raises(SchemaTooLarge):
        schema_limits.check_schema(orjson.loads(written))


def test_quoted_pattern_has_no_control_characters():
    with pytest.raises(SchemaTooLarge) as refused:
        schema_limits.check_schema({"pattern": "\x1b[31m\n" + "a" * 1000})
    assert str(refused.value).isprintable()


def test_largest_body_is_counted_in_linear_time():
    def check(schema: object) -> None:
        with pytest.raises(SchemaTooLarge):
            schema_limits.check_schema(schema)

    for short, long in (
        ({"enum": list(range(count))} for count in (31_250, 250_000)),
        ({"properties": patterns(count)} for count in (7_500, 60_000)),
        ([[[[]]]] * count for count in (25_000, 200_000)),
    ):
        assert growth.grows_slowly(partial(check, short), partial(check, long))


def patterns(count: int) -> dict[str, object]:
    return {str(number): {"pattern": "a"} for number in range(count)}
