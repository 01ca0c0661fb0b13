"""The content type of bodies, and limits on the number of their values.

Validation takes microseconds for each wrong item of a list, and listing the errors ten
times that: without limits, 2 MiB of zeros take 18 seconds of the event loop.
"""

from typing import Any

import orjson
from django.http import HttpRequest

from core.errors import Invalid

MAX_VALUES = 50_000
"""Keys of objects and items of lists, at all levels."""
MAX_KEYS = 5_000
"""Keys of one object: OpenAI's limit on the properties of a JSON Schema."""
UNCHECKED_COMMAS = 2_000
"""Bodies with fewer commas, which are nearly all, have few values and are not
counted."""


def check_content_type(request: HttpRequest) -> None:
    """Raise `Invalid` for a content type other than JSON.

    Any web page can post a form or plain text to this server.
    """
    if request.content_type != "application/json":
        raise Invalid(
            "Send the body as JSON, with the header Content-Type: application/json",
            code="unsupported_content_type",
        )


def parse_json(body: bytes) -> Any:
    """Return the parsed body.

    Raises `orjson.JSONDecodeError` for a body that is not JSON, and `Invalid` for more
    values or keys than the limits allow.
    """
    value = orjson.loads(body)
    if body.count(b",") > UNCHECKED_COMMAS:
        _check_counts(value)
    return value


def _check_counts(value: Any) -> None:
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if not isinstance(item, dict | list):
            continue
        if isinstance(item, dict) and len(item) > MAX_KEYS:
            raise _too_many(f"an object with more than {MAX_KEYS:,} keys")
        count += len(item)
        if count > MAX_VALUES:
            raise _too_many(f"more than {MAX_VALUES:,} values")
        pending.extend(item.values() if isinstance(item, dict) else item)


def _too_many(values: str) -> Invalid:
    return Invalid(f"The body has {values}; send less", code="too_many_values")
