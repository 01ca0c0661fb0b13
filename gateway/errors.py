"""The mapping of error families to OpenAI's error types and HTTP status codes.

Domain code knows no status codes; nothing else maps errors to HTTP.
"""

import logging
import math
from typing import Any, NamedTuple

from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja.errors import HttpError, ValidationError

from access.errors import BudgetExceeded, TooManyParameters
from api_base.json_responses import json_response
from config.errors import ConfigInvalid
from core.errors import (
    Conflict,
    CoulisseError,
    Denied,
    Invalid,
    Limited,
    NotFound,
    Unauthenticated,
    Unavailable,
    Upstream,
)
from core.runtime import request_facts
from core.text.sanitization import escape_and_truncate
from files.errors import FileTooLarge, FileTypeRefused
from gateway.html_pages import HtmlPage
from gateway.openai import serializers
from gateway.request_validation import validation_errors
from providers.errors import Overloaded, RateLimited, TimedOut

logger = logging.getLogger(__name__)


class BodyTooLarge(Invalid):
    """The body is larger than this server accepts."""

    code = "body_too_large"


class HostRefused(Invalid):
    """The Host header names another server."""

    code = "host_not_allowed"


class ServerStopping(Unavailable):
    """The server is stopping. Try again in a moment."""

    code = "server_stopping"
    retry_after_seconds = 2


class ErrorShape(NamedTuple):
    """The public form of an error family."""

    status: int
    type: str


ERROR_SHAPES: list[tuple[type[CoulisseError], ErrorShape]] = [
    # More specific classes come first.
    (RateLimited, ErrorShape(429, "upstream_error")),
    (Overloaded, ErrorShape(503, "upstream_error")),
    (TimedOut, ErrorShape(504, "upstream_error")),
    (ConfigInvalid, ErrorShape(503, "service_unavailable")),
    (Conflict, ErrorShape(409, "invalid_request_error")),
    (BodyTooLarge, ErrorShape(413, "invalid_request_error")),
    (FileTooLarge, ErrorShape(413, "invalid_request_error")),
    (FileTypeRefused, ErrorShape(415, "invalid_request_error")),
    (Invalid, ErrorShape(400, "invalid_request_error")),
    # OpenAI's own type for an invalid key.
    (Unauthenticated, ErrorShape(401, "invalid_request_error")),
    (Denied, ErrorShape(403, "permission_error")),
    (NotFound, ErrorShape(404, "invalid_request_error")),
    (BudgetExceeded, ErrorShape(429, "insufficient_quota")),
    (Limited, ErrorShape(429, "rate_limited")),
    (Upstream, ErrorShape(502, "upstream_error")),
    (Unavailable, ErrorShape(503, "service_unavailable")),
    (CoulisseError, ErrorShape(500, "server_error")),
]

RATE_LIMITED_SECONDS = 30.0
"""The Retry-After where a provider named none: most limits of theirs are per minute."""
MAX_RETRY_AFTER_SECONDS = 60
"""The longest Retry-After that OpenAI's clients obey."""

HOSTS_REMEDY = (
    "in coulisse.yaml, set public_base_url to an address with this name, or add the "
    "name to server.allowed_hosts"
)

INTERNAL_ERROR_MESSAGE = "The server had an internal error. See its log for details."


def error_shape(error: CoulisseError) -> ErrorShape:
    return next(shape for family, shape in ERROR_SHAPES if isinstance(error, family))


def error_body(error: CoulisseError, *, for_operators: bool = False) -> dict[str, Any]:
    """Return an error in OpenAI's shape, without its detail, which is for operators."""
    return error_object(
        str(error) if for_operators else error.message,
        error_shape(error).type,
        param=getattr(error, "param", None),
        code=error.code,
    )


def error_object(
    message: str, type: str, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return OpenAI's error object; its code is noted for the request log.

    The message is not redacted: a missing value would confirm a guess.
    """
    request_facts.note(error_code=code or type)
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def object_response(
    status: int,
    message: str,
    type: str,
    *,
    param: str | None = None,
    code: str | None = None,
) -> HttpResponse:
    """Return an HTTP response with OpenAI's error object."""
    return json_response(
        error_object(message, type, param=param, code=code), status=status
    )


def internal_error() -> dict[str, Any]:
    """Return an internal error without any details."""
    return error_object(INTERNAL_ERROR_MESSAGE, "server_error", code="internal_error")


def error_response(error: CoulisseError) -> HttpResponse:
    headers = dict(getattr(error, "headers", {}))
    seconds = retry_after_seconds(error)
    if seconds is None and isinstance(error, RateLimited):
        seconds = RATE_LIMITED_SECONDS
    if seconds is not None:
        headers["Retry-After"] = str(math.ceil(seconds))
    if _is_final(error):
        headers["X-Should-Retry"] = "false"
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = error.challenge
    if error.attempts is not None:
        headers |= serializers.serving_headers(error.provider, error.attempts)
    return json_response(
        error_body(error), status=error_shape(error).status, headers=headers
    )


def retry_after_seconds(error: CoulisseError) -> float | None:
    """Return when a client may retry; None if this is unknown."""
    return getattr(error, "retry_after_seconds", None)


def _is_final(error: CoulisseError) -> bool:
    """Return whether OpenAI's clients, which retry automatically, should not."""
    seconds = retry_after_seconds(error)
    if seconds is not None:
        # They retry at once if the delay is that long.
        return seconds > MAX_RETRY_AFTER_SECONDS
    # The server has already retried the provider; clients would multiply that.
    return isinstance(error, BudgetExceeded | Conflict | Upstream)


def on_domain_error(request: HttpRequest, exc: CoulisseError) -> HttpResponse:
    """Return the response for a `CoulisseError`, and log what the client does not
    see."""
    log_error(request.method or "", request.path, exc)
    return error_response(exc)


def log_error(method: str, path: str, exc: CoulisseError) -> None:
    """Log a server error, or an error with a detail for operators."""
    is_server_error = error_shape(exc).status >= 500
    if is_server_error or exc.detail:
        level = logging.WARNING if is_server_error else logging.INFO
        logger.log(
            level,
            "%s %s: %s",
            escape_and_truncate(method),
            escape_and_truncate(path),
            exc,
        )


def on_invalid_body(request: HttpRequest, exc: ValidationError) -> HttpResponse:
    """Return the response for an invalid body; it names the first problem."""
    return error_response(validation_errors.first_error(exc.errors))


def on_long_query(request: HttpRequest, exc: TooManyFieldsSent) -> HttpResponse:
    """Return the response for a query with more parameters than Django parses."""
    return error_response(TooManyParameters())


def on_http_error(request: HttpRequest, exc: HttpError) -> HttpResponse:
    """Return the response for ninja's own errors, which hide why a body is
    unreadable."""
    if isinstance(exc.__cause__, CoulisseError):
        return on_domain_error(request, exc.__cause__)
    family = "server_error" if exc.status_code >= 500 else "invalid_request_error"
    return object_response(exc.status_code, str(exc), family)


def on_internal_error(request: HttpRequest, exc: Exception) -> HttpResponse:
    """Return the response for an internal error, and log it in full."""
    method = escape_and_truncate(request.method or "")
    path = escape_and_truncate(request.path)
    logger.exception("%s %s failed", method, path, exc_info=exc)
    return json_response(internal_error(), status=500)


def bad_url_response() -> HttpResponse:
    """Return the response for a URL that is not text."""
    message = "The URL is not valid UTF-8."
    return object_response(400, message, "invalid_request_error")


HTTP_MESSAGES = {
    404: ("Unknown request URL: {method} {path}.", "not_found"),
    405: ("{method} is not allowed for {path}.", "method_not_allowed"),
}


def as_openai_error(
    request: HttpRequest, response: HttpResponseBase
) -> HttpResponseBase:
    """Return `response`; errors of Django's own get OpenAI's shape."""
    is_json = response.get("Content-Type") == "application/json"
    if response.status_code < 400 or is_json or isinstance(response, HtmlPage):
        return response
    message, code = HTTP_MESSAGES.get(
        response.status_code, (INTERNAL_ERROR_MESSAGE, "internal_error")
    )
    is_server_error = response.status_code >= 500
    replacement = object_response(
        response.status_code,
        message.format(
            method=escape_and_truncate(request.method or ""),
            path=escape_and_truncate(request.path),
        ),
        "server_error" if is_server_error else "invalid_request_error",
        code=code,
    )
    if "Allow" in response:
        replacement["Allow"] = response["Allow"]
    return replacement
