"""Serves the studio's scripts, styles and fonts from the static files finders."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class AssetMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """Middleware: sends an asset as one body, since a thread cannot stream it."""

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
