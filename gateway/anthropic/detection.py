"""Which requests are of Anthropic's API."""

from django.http import HttpRequest

MESSAGES = "/v1/messages"
MODELS = "/v1/models"
VERSION_HEADER = "anthropic-version"
"""Anthropic's clients always send it; on `/v1/models` it selects their shape."""


def is_anthropic(request: HttpRequest) -> bool:
    path = request.path
    if path == MESSAGES or path.startswith(f"{MESSAGES}/"):
        return True
    return path.startswith(MODELS) and VERSION_HEADER in request.headers
