"""Plain-language messages for pydantic's error types."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import ErrorDetails

MAP = "a map of fields"
NUMBER = "a number"
WHOLE_NUMBER = "a whole number"

EXPECTATIONS = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dataclass_type": MAP,
    "decimal_parsing": NUMBER,
    "decimal_type": NUMBER,
    "dict_type": MAP,
    "enum": "one of {expected}",
    "finite_number": "a finite number",
    "float_parsing": NUMBER,
    "float_type": NUMBER,
    "frozen_set_type": "a list",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": WHOLE_NUMBER,
    "int_parsing": WHOLE_NUMBER,
    "int_parsing_size": WHOLE_NUMBER,
    "int_type": WHOLE_NUMBER,
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "one of {expected}",
    "mapping_type": MAP,
    "model_attributes_type": MAP,
    "model_type": MAP,
    "multiple_of": "a multiple of {multiple_of}",
    "none_required": "empty",
    "set_type": "a list",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "at most {max_length} characters long",
    "string_too_short": "at least {min_length} characters long",
    "string_type": "text",
    "too_long": "a list of at most {max_length} entries",
    "too_short": "a list of at least {min_length} entries",
    "tuple_type": "a list",
    "url_parsing": "a URL",
    "url_scheme": "a URL that starts with {expected_schemes}",
    "url_type": "a URL",
}
"""Completes "must be …"; the names in braces are pydantic's context."""

NOT_EMPTY = "not empty"
SELF_DESCRIBING = {"assertion_error", "value_error"}


def describe_expectation(error: ErrorDetails) -> str | None:
    """Return the text after "must be …"; None for errors with their own message."""
    context: Mapping[str, Any] = error.get("ctx", {})
    if error["type"].endswith("too_short") and context.get("min_length") == 1:
        return NOT_EMPTY
    phrase = EXPECTATIONS.get(error["type"])
    if phrase is not None and context.get("field_type") == "Dictionary":
        phrase = phrase.replace("a list", "a map")
    return None if phrase is None else phrase.format(**context)


def error_message(error: ErrorDetails) -> str:
    """Return the message of our own validator, or else pydantic's."""
    if error["type"] in SELF_DESCRIBING:
        return str(error["ctx"]["error"])
    message = error["msg"]
    return message[:1].lower() + message[1:]


def describe_value(value: object) -> str:
    match value:
        case None:
            return "an empty value"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return f"'{value}'" if len(value) <= 40 else f"'{value[:39]}…'"
        case dict():
            return "a map" if value else "an empty map"
        case _:
            return "a list" if value else "an empty list"
