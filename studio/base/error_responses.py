"""What goes wrong under `/admin/`, as data: the page renderer makes a page of it."""

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
from core.text.sanitization import shortened
from gateway import errors

logger = logging.getLogger(__name__)


class Problem(BaseModel):
    """What is wrong at one place of the configuration."""

    message: str
    code: str | None
    location: list[str | int]
    file: str | None
    line: int | None
    column: int | None


class Problems(BaseModel):
    """All that is wrong with a text; nothing, if it may be saved."""

    problems: list[Problem]


UNPROCESSABLE = 422
DATABASE_AWAY = (InterfaceError, OperationalError)


def handle(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Return the answer to an error; REST framework's `EXCEPTION_HANDLER`."""
    if isinstance(exc, Http404):
        exc = NotFound("There is no such page")
    if isinstance(exc, SuspiciousOperation):
        exc = ParseError(f"The form cannot be read: {exc}")
    if isinstance(exc, ConfigInvalid):
        return Response(invalid(exc), status=UNPROCESSABLE)
    if isinstance(exc, CoulisseError):
        return _ours(exc)
    if isinstance(exc, APIException):
        return _frameworks(exc)
    if isinstance(exc, DATABASE_AWAY):
        return Response(without_database(exc), status=503)
    request = context["request"]
    where = shortened(request.method), shortened(request.path)
    logger.exception("%s %s failed", *where, exc_info=exc)
    return Response(errors.internal(), status=500)


def without_database(exc: Exception) -> dict[str, Any]:
    """Return what is told while there is no database, and log why."""
    logger.warning("the studio has no database: %s", str(exc).partition("\n")[0])
    return errors.shape(
        "The database is not available; try again", "service_unavailable"
    )


def invalid(exc: ConfigInvalid) -> dict[str, Any]:
    """Return the validator's words, and each problem by its place.

    They may quote a value that the file hides, through an alias. So whatever looks like
    a key is masked, whether it is a secret or not.
    """
    said = redaction.quoted(str(exc))
    told = errors.shape(said, "invalid_request_error", code="config_invalid")
    told["error"]["problems"] = [_problem(problem) for problem in exc.problems]
    return told


def _problem(problem: Found) -> dict[str, Any]:
    place = problem.position
    return {
        "message": redaction.quoted(problem.message),
        "code": problem.code,
        "location": [
            redaction.quoted(step) if isinstance(step, str) else step
            for step in problem.location
        ],
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }


def _ours(exc: CoulisseError) -> Response:
    kind = errors.kind_of(exc)
    if kind.status >= 500:
        logger.warning("the studio: %s", exc)
    answer = Response(errors.body(exc, for_operators=True), status=kind.status)
    seconds = errors.retry_after_seconds(exc)
    if seconds is not None:
        answer["Retry-After"] = str(round(seconds))
    return answer


def _frameworks(exc: APIException) -> Response:
    told = errors.shape(
        str(exc.detail), "invalid_request_error", code=str(exc.get_codes())
    )
    answer = Response(told, status=exc.status_code)
    if exc.status_code == 405:
        answer["Allow"] = ", ".join(getattr(exc, "allowed", ()))
    return answer
