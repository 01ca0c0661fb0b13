"""Renders the data of a view as a page of the studio."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.template import loader
from rest_framework.exceptions import APIException

from studio.base import formats
from studio.base.admin_site import site
from studio.base.formats import DataRenderer

REFUSED_TEMPLATE = "studio/errors/request_error.html"
PLAIN_TEMPLATE = "studio/data.html"
"""For endpoints without a page that a browser opens nevertheless."""
RESERVED_CONTEXT_KEYS = {
    "colors",
    "csrf_token",
    "messages",
    "perms",
    "request",
    "styles",
    "user",
}
"""Keys that the shell's templates use; the data's own is at `response_data.user`."""


class HtmlRenderer(DataRenderer):
    """Renders a page in the studio's shell."""

    media_type = "text/html"
    format = "html"

    def serialize(self, data: Any, context: Mapping[str, Any]) -> str:
        """Return the HTML of the page."""
        view, request = context["view"], context["request"]
        response = context["response"]
        if response.exception:
            template, shown = _refused_page(view, data, response.status_code)
        else:
            template, shown = _success_page(view, data, response)
        shell = {
            **site.each_context(request._request),
            "title": view.title or "Data",
            "breadcrumbs": view.breadcrumbs,
            "is_operator": site.is_operator(request._request),
        }
        own = {name: shown[name] for name in shown.keys() - RESERVED_CONTEXT_KEYS}
        text: str = loader.render_to_string(
            template, {**shell, **own, "response_data": shown}, request=request._request
        )
        return text


def _success_page(view: Any, data: Any, response: Any) -> tuple[str, dict[str, Any]]:
    template = getattr(response, "template", None) or view.template
    if not template:
        return PLAIN_TEMPLATE, {"yaml": formats.dump_readable_yaml(data)}
    shown = _context(data)
    page = getattr(response, "page", None)
    if page is not None:
        shown.update(page())
    return template, shown


def _context(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return dict(data)
    return {} if data is None else {"data": data}


def _refused_page(view: Any, data: Any, status: int) -> tuple[str, Mapping[str, Any]]:
    """Return the refused form with the typed values, or an error page."""
    error = data["error"]
    filled = _refused_form_context(view) if view.is_form else None
    if filled is None:
        return REFUSED_TEMPLATE, {
            "error": error,
            "title": error_title(status),
        }
    return view.template, {**filled, "error": error}


def _refused_form_context(view: Any) -> Mapping[str, Any] | None:
    try:
        filled: Mapping[str, Any] | None = view.refused_form_context()
    except (APIException, SuspiciousOperation):
        return None  # The typed values cannot be read.
    return filled


ERROR_TITLES = {
    403: "Not allowed",
    404: "Not found",
    409: "Changed meanwhile",
    500: "That failed",
    503: "Not available",
}


def error_title(status: int) -> str:
    """Return the title of an error page."""
    return ERROR_TITLES.get(status, "That does not work")
