"""JSON responses of endpoints."""

from typing import Any

import orjson
from django.http import HttpResponse


def json_response(content: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Return `content` as JSON."""
    body = orjson.dumps(content)
    # Django leaves the length to a middleware; without it uvicorn would send chunks.
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return HttpResponse(body, headers=headers, status=status)
