"""Renders the data of a view as a page, in the shell of the admin."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.core.exceptions import SuspiciousOperation
from django.template import loader
from rest_framework.exceptions import APIException
from rest_framework.renderers import BaseRenderer

from admin_base.formats import data_formats
from core.errors import CoulisseError

ERROR_TEMPLATE = "studio/errors/request_error.html"
DATA_TEMPLATE = "studio/data.html"
"""For endpoints without a page that are opened in a browser."""
RESERVED_CONTEXT_KEYS = {
    "colors",
    "csrf_token",
    "messages",
    "perms",
    "request",
    "styles",
    "user",
}
"""Keys that the shell's templates use; data with these keys is at `response_data`."""


class HtmlRenderer(BaseRenderer):
    """Renders a page in the studio's shell."""

    media_type = "text/html"
    format = "html"

    def render(self, data: Any, media_type: Any = None, context: Any = None) -> str:
        view, request = context["view"], context["request"]
        response = context["response"]
        if response.exception:
            template, page = _error_page(view, data, response.status_code)
        else:
            template, page = _success_page(view, data, response)
        shell = {
            **admin.site.each_context(request._request),
            "title": view.title or "Data",
            "breadcrumbs": view.breadcrumbs,
            "may_change": view.may_change(),
        }
        fields = {name: page[name] for name in page.keys() - RESERVED_CONTEXT_KEYS}
        text: str = loader.render_to_string(
            template,
            {**shell, **fields, "response_data": page},
            request=request._request,
        )
        return text


def _success_page(view: Any, data: Any, response: Any) -> tuple[str, dict[str, Any]]:
    if not view.template:
        return DATA_TEMPLATE, {"yaml": data_formats.dump_readable_yaml(data)}
    context = _context(data)
    load_context = getattr(response, "page", None)
    if load_context is not None:
        context.update(load_context())
    return view.template, context


def _context(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return dict(data)
    return {} if data is None else {"data": data}


def _error_page(view: Any, data: Any, status: int) -> tuple[str, Mapping[str, Any]]:
    """Return the refused form with the submitted values, or an error page."""
    form, error = None, data["error"]
    # The form may be unreadable, or of a missing object.
    with suppress(APIException, SuspiciousOperation, CoulisseError):
        form = view.refused_form_context() if view.is_form else None
    if form is None:
        return ERROR_TEMPLATE, {"error": error, "title": error_title(status)}
    return view.template, {**form, "error": error}


ERROR_TITLES = {
    400: "Invalid request",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Format not available",
    409: "Edit conflict",
    422: "Invalid configuration",
    429: "Too many requests",
    500: "Server error",
    503: "Unavailable",
}


def error_title(status: int) -> str:
    return ERROR_TITLES.get(status, "Request failed")
