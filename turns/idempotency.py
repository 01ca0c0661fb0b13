"""The header with which a client repeats a request safely."""

import hashlib
from typing import Any

from django.http import HttpRequest

from core.errors import Invalid

HEADER = "Idempotency-Key"
MAX_LENGTH = 255


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
