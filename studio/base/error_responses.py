"""Errors under `/admin/` as data; the page renderer makes pages of them."""

import logging
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from pydantic import BaseModel
from rest_framework.exceptions import APIException, ParseError
from rest_framework.response import Response

from config.errors import ConfigInvalid
from config.sections import Problem as Found
from core.errors import CoulisseError, NotFound
from core.text import redaction
from core.text.sanitization import escape_and_truncate
from gateway import errors

logger = logging.getLogger(__name__)


class ConfigProblemDetail(BaseModel):
    """A problem at one place of the configuration."""

    message: str
    code: str | None
    location: list[str | int]
    file: str | None
    line: int | None
    column: int | None


class ConfigProblemList(BaseModel):
    """All problems of a text; empty if the text may be saved."""

    problems: list[ConfigProblemDetail]


UNPROCESSABLE = 422
DATABASE_ERRORS = (InterfaceError, OperationalError)


def handle_exception(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an error; REST framework's `EXCEPTION_HANDLER`."""
    if isinstance(exc, Http404):
        exc = NotFound("There is no such page")
    if isinstance(exc, SuspiciousOperation):
        exc = ParseError(f"The form cannot be read: {exc}")
    if isinstance(exc, ConfigInvalid):
        return Response(invalid_config_body(exc), status=UNPROCESSABLE)
    if isinstance(exc, CoulisseError):
        return _domain_error_response(exc)
    if isinstance(exc, APIException):
        return _framework_error_response(exc)
    if isinstance(exc, DATABASE_ERRORS):
        return Response(database_error_body(exc), status=503)
    request = context["request"]
    where = escape_and_truncate(request.method), escape_and_truncate(request.path)
    logger.exception("%s %s failed", *where, exc_info=exc)
    return Response(errors.internal_error(), status=500)


def database_error_body(exc: Exception) -> dict[str, Any]:
    """Return the error body for an unavailable database, and log the cause."""
    logger.warning("the studio has no database: %s", str(exc).partition("\n")[0])
    return errors.error_object(
        "The database is not available; try again", "service_unavailable"
    )


def invalid_config_body(exc: ConfigInvalid) -> dict[str, Any]:
    """Return the validator's message, and each problem with its place.

    Messages may quote a value that the file hides, through an alias. So everything that
    looks like a key is masked, whether it is a secret or not.
    """
    said = redaction.redact_quote(str(exc))
    told = errors.error_object(said, "invalid_request_error", code="config_invalid")
    told["error"]["problems"] = [
        _serialize_problem(problem) for problem in exc.problems
    ]
    return told


def _serialize_problem(problem: Found) -> dict[str, Any]:
    place = problem.position
    return {
        "message": redaction.redact_quote(problem.message),
        "code": problem.code,
        "location": [
            redaction.redact_quote(step) if isinstance(step, str) else step
            for step in problem.location
        ],
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }


def _domain_error_response(exc: CoulisseError) -> Response:
    kind = errors.error_shape(exc)
    if kind.status >= 500:
        logger.warning("the studio: %s", exc)
    answer = Response(errors.error_body(exc, for_operators=True), status=kind.status)
    seconds = errors.retry_after_seconds(exc)
    if seconds is not None:
        answer["Retry-After"] = str(round(seconds))
    return answer


def _framework_error_response(exc: APIException) -> Response:
    told = errors.error_object(
        str(exc.detail), "invalid_request_error", code=str(exc.get_codes())
    )
    answer = Response(told, status=exc.status_code)
    if exc.status_code == 405:
        answer["Allow"] = ", ".join(getattr(exc, "allowed", ()))
    return answer
