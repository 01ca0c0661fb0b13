"""Handles unexpected errors anywhere in the studio."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from admin_base.formats import content_negotiation, html_renderer
from api_base.json_responses import json_response
from gateway.html_pages import HtmlPage
from studio.base import error_responses


class ErrorMiddleware:
    """Middleware: handles errors that neither a view nor the access check handles."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_exception(
        self, request: HttpRequest, exc: Exception
    ) -> HttpResponseBase:
        return error_response(request, exc)


def wants_html(request: HttpRequest) -> bool:
    """Return whether the client is a browser, which gets error pages."""
    return content_negotiation.prefers_html(request.headers.get("Accept", ""))


def error_response(request: HttpRequest, exc: Exception) -> HttpResponseBase:
    """Return the response to an error, and log it if it is ours."""
    response = error_responses.handle_exception(exc, {"request": request})
    data, status = response.data, response.status_code
    if not wants_html(request):
        return json_response(data, status=status)
    # The shell of other pages reads its user from the database.
    if status == 500:
        return HtmlPage("studio/errors/server_error.html", status=status)
    if status == 503:
        message = data["error"]["message"]
        return HtmlPage(
            "studio/errors/unavailable.html", status=status, message=message
        )
    title = html_renderer.error_title(status)
    context: dict[str, Any] = {**admin.site.each_context(request), **data}
    template = html_renderer.ERROR_TEMPLATE
    return render(request, template, {**context, "title": title}, status=status)
