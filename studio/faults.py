"""Answers a fault of ours, wherever in the studio it happens, and logs it whole."""

import logging
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from gateway import errors
from gateway.pages import Page
from studio.door import wants_page

logger = logging.getLogger(__name__)


class Faults:
    """Middleware: what neither a face nor the door has an answer to."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_exception(
        self, request: HttpRequest, exc: Exception
    ) -> HttpResponseBase:
        """Return the answer."""
        logger.exception("%s %r failed", request.method, request.path, exc_info=exc)
        if wants_page(request):
            return Page("studio/failed.html", status=500)
        return errors.json_response(errors.internal(), status=500)
