"""Handles unexpected errors anywhere in the studio, and logs them in full."""

import logging
from collections.abc import Callable

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    SuspiciousOperation,
)
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import loader

from api_base.json_responses import json_response
from core.errors import CoulisseError, Denied, Invalid, NotFound
from gateway import errors
from gateway.html_pages import HtmlPage
from studio.base import content_negotiation, error_responses, html_renderer
from studio.base.admin_site import site

logger = logging.getLogger(__name__)

CLIENT_ERRORS = (BadRequest, Http404, PermissionDenied, SuspiciousOperation)
"""Django's exceptions for client errors."""


class ErrorMiddleware:
    """Middleware: handles errors that neither a view nor the access check handles."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_exception(
        self, request: HttpRequest, exc: Exception
    ) -> HttpResponseBase:
        """Return the error response."""
        if isinstance(exc, CLIENT_ERRORS):
            return _client_error_response(request, exc)
        if isinstance(exc, error_responses.DATABASE_ERRORS):
            # The shell of every page reads its user from the database.
            return database_error_response(request, exc)
        logger.exception("%s %r failed", request.method, request.path, exc_info=exc)
        if wants_html(request):
            return HtmlPage("studio/errors/server_error.html", status=500)
        return json_response(errors.internal_error(), status=500)


def wants_html(request: HttpRequest) -> bool:
    """Return whether the client is a browser, which gets error pages."""
    return content_negotiation.prefers_html(request.headers.get("Accept", ""))


def database_error_response(request: HttpRequest, exc: Exception) -> HttpResponseBase:
    """Return the response for an unavailable database, and log the cause."""
    body = error_responses.database_error_body(exc)
    if not wants_html(request):
        return json_response(body, status=503)
    return HtmlPage(
        "studio/errors/unavailable.html",
        status=503,
        title="The database is unavailable",
        message="Reload this page in a moment. The server log has the details.",
    )


def _client_error_response(request: HttpRequest, exc: Exception) -> HttpResponseBase:
    """Return the response to an error of Django; only the tables raise them."""
    error: CoulisseError = Denied(
        "Only operators may view tables, and tables are read-only"
    )
    if isinstance(exc, Http404):
        error = NotFound("Table or page not found")
    elif isinstance(exc, BadRequest | SuspiciousOperation):
        error = Invalid("Invalid query; open the table without it")
    if not wants_html(request):
        return errors.error_response(error)
    status = errors.error_shape(error).status
    context = {
        **site.each_context(request),
        **errors.error_body(error),
        "title": html_renderer.error_title(status),
        "breadcrumbs": [("Tables", "/admin/tables/")],
        "is_operator": site.is_operator(request),
    }
    text = loader.render_to_string(
        html_renderer.ERROR_TEMPLATE, context, request=request
    )
    return HttpResponse(text, status=status)
