"""Keeps the database connections of the studio's threads, and repairs them."""

from collections.abc import Callable

from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class ConnectionMiddleware:
    """Middleware: drops a connection that broke since the thread's last request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        return self._get_response(request)
