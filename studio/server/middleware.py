"""Middleware of the studio besides the access check: errors, assets, connections."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from whitenoise.middleware import WhiteNoiseMiddleware

from admin_base.formats import content_negotiation, html_renderer
from api_base.json_responses import json_response
from gateway.html_pages import HtmlPage
from studio.base import error_responses

KEPT_HEADERS = ("Allow", "Retry-After")


class ErrorMiddleware:
    """Handles errors that neither a view nor the access check handles."""

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
        kept = {name: response[name] for name in KEPT_HEADERS if name in response}
        return json_response(data, status=status, headers=kept)
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


class AssetMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """Sends an asset as one body, since a thread cannot stream it."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """Return an asset, or 304 if it has not changed."""
        asset_response = static_file.get_response(request.method, request.META)
        content = b""
        if asset_response.file is not None:
            with asset_response.file as file:
                content = file.read()
        response = HttpResponse(content, status=int(asset_response.status))
        del response.headers["Content-Type"]
        for name, value in asset_response.headers:
            response.headers[name] = value
        if content:
            # An upgrade may have replaced the file meanwhile.
            response.headers["Content-Length"] = str(len(content))
        return response


class ConnectionMiddleware:
    """Keeps the thread's connection to the database, unless it broke."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        return self._get_response(request)
