"""Serves the studio's scripts, styles and fonts from where the finders see them."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class AssetMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """Middleware: sends an asset as one body, since a thread cannot stream it."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """Return an asset, or 304 if it has not changed."""
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file as file:
                content = file.read()
        answer = HttpResponse(content, status=int(found.status))
        del answer.headers["Content-Type"]
        for name, value in found.headers:
            answer.headers[name] = value
        if content:
            # An upgrade may have replaced the file meanwhile.
            answer.headers["Content-Length"] = str(len(content))
        return answer
