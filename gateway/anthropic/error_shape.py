"""Errors in the shape of Anthropic's API."""

from typing import Any, cast

import orjson
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from core.errors import CoulisseError
from core.runtime import request_facts, request_ids
from gateway import errors
from gateway.anthropic.detection import is_anthropic

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""The types of errors by status; others depend on whose fault it is."""


def error_body(message: str, status: int) -> dict[str, Any]:
    kind = TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": request_ids.current.get(),
    }


def error_frame(error: CoulisseError | None) -> bytes:
    """Return the event that ends a failed stream; None means an internal error."""
    if error is None:
        body = error_body(errors.INTERNAL_ERROR_MESSAGE, 500)
    else:
        request_facts.note(error_code=error.code)
        body = error_body(error.message, errors.error_shape(error).status)
    return b"event: error\ndata: %b\n\n" % orjson.dumps(body)


def reshape(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Return a response; an error of Anthropic's API gets its shape."""
    is_json = response.get("Content-Type") == "application/json"
    if response.status_code < 400 or not is_json or not is_anthropic(request):
        return response
    reply = cast(HttpResponse, response)
    message = orjson.loads(reply.content)["error"]["message"]
    reply.content = orjson.dumps(error_body(message, reply.status_code))
    reply.headers["Content-Length"] = str(len(reply.content))
    return reply
