"""JSON responses of endpoints."""

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpResponse
from pydantic import BaseModel


def json_response(
    content: dict[str, Any] | BaseModel,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    body = (
        content.model_dump_json().encode()
        if isinstance(content, BaseModel)
        else orjson.dumps(content)
    )
    # Django leaves the length to a middleware; without it uvicorn would send chunks.
    fixed = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return HttpResponse(body, headers={**fixed, **(headers or {})}, status=status)
