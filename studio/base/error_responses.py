"""Errors under `/admin/` as data; the page renderer makes pages of them."""

import logging
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from pydantic import BaseModel
from rest_framework.exceptions import APIException, ParseError
from rest_framework.response import Response

from config.errors import ConfigInvalid
from config.sections import Problem
from core.errors import CoulisseError, Denied, NotFound
from core.text import redaction
from core.text.sanitization import escape_and_truncate
from gateway import errors

logger = logging.getLogger(__name__)


class ConfigProblemDetail(BaseModel):
    """A problem at one position in the configuration."""

    message: str
    code: str | None
    location: list[str | int]
    file: str | None
    line: int | None
    column: int | None


class ConfigProblemList(BaseModel):
    """All problems of a text; empty if the text is valid."""

    problems: list[ConfigProblemDetail]


UNPROCESSABLE = 422
DATABASE_ERRORS = (InterfaceError, OperationalError)


def handle_exception(exc: Exception, context: dict[str, Any]) -> Response:
    """Return the response to an error; REST framework's `EXCEPTION_HANDLER`."""
    if isinstance(exc, Http404):
        exc = NotFound("Page not found")
    elif isinstance(exc, PermissionDenied):
        exc = Denied("Your account may not do this; ask an operator")
    elif isinstance(exc, BadRequest | SuspiciousOperation):
        exc = ParseError(f"Invalid request: {exc}")
    if isinstance(exc, ConfigInvalid):
        return Response(invalid_config_body(exc), status=UNPROCESSABLE)
    if isinstance(exc, CoulisseError):
        return _domain_error_response(exc)
    if isinstance(exc, APIException):
        return _framework_error_response(exc)
    if isinstance(exc, DATABASE_ERRORS):
        return _database_error_response(exc)
    request = context["request"]
    method, path = map(escape_and_truncate, (request.method, request.path))
    logger.exception("%s %s failed", method, path, exc_info=exc)
    return Response(errors.internal_error(), status=500)


def invalid_config_body(exc: ConfigInvalid) -> dict[str, Any]:
    """Return the validator's message, and each problem with its position.

    Through an alias, a message may quote a hidden value of the file. So every text that
    looks like a key is masked.
    """
    message = redaction.redact_quote(str(exc))
    body = errors.error_object(message, "invalid_request_error", code="config_invalid")
    body["error"]["problems"] = [
        _serialize_problem(problem) for problem in exc.problems
    ]
    return body


def _serialize_problem(problem: Problem) -> dict[str, Any]:
    position = problem.position
    return {
        "message": redaction.redact_quote(problem.message),
        "code": problem.code,
        "location": [
            redaction.redact_quote(step) if isinstance(step, str) else step
            for step in problem.location
        ],
        "file": position.file if position else None,
        "line": position.line if position else None,
        "column": position.column if position else None,
    }


def _domain_error_response(exc: CoulisseError) -> Response:
    kind = errors.error_shape(exc)
    if kind.status >= 500:
        logger.warning("studio request failed: %s", exc)
    response = Response(errors.error_body(exc, for_operators=True), status=kind.status)
    seconds = errors.retry_after_seconds(exc)
    if seconds is not None:
        response["Retry-After"] = str(round(seconds))
    return response


def _database_error_response(exc: Exception) -> Response:
    logger.warning(
        "the studio cannot reach the database: %s", str(exc).partition("\n")[0]
    )
    message = "The database is unavailable; try again"
    return Response(errors.error_object(message, "service_unavailable"), status=503)


def _framework_error_response(exc: APIException) -> Response:
    body = errors.error_object(
        str(exc.detail), "invalid_request_error", code=str(exc.get_codes())
    )
    response = Response(body, status=exc.status_code)
    if exc.status_code == 405:
        response["Allow"] = ", ".join(getattr(exc, "allowed", ()))
    return response
