"""Repetitions of requests: the header that marks them, and digests of requests."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpRequest
from pydantic import BaseModel

from core.errors import Invalid

HEADER = "Idempotency-Key"
MAX_LENGTH = 255
USER_FIELDS = {"safety_identifier", "user"}
"""Fields that identify the user and do not change the work."""


def read_key(request: HttpRequest) -> str | None:
    """Return the digest of the request's key, or None; raises `Invalid`.

    The key itself may contain characters that databases do not store.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not key.strip() or len(key) > MAX_LENGTH:
        raise Invalid(
            f"{HEADER} must be 1 to {MAX_LENGTH} characters long", param=HEADER
        )
    return digest(key.encode())


def digest_request(body: BaseModel, metadata: Mapping[str, str]) -> str:
    """Return the digest of a request without its user."""
    content = {**body.model_dump(exclude=USER_FIELDS), "metadata": metadata}
    return digest(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def describe_header(description: str) -> dict[str, Any]:
    """Return the OpenAPI parameter of the header."""
    return {
        "in": "header",
        "name": HEADER,
        "schema": {"type": "string", "maxLength": MAX_LENGTH},
        "required": False,
        "description": description,
    }
