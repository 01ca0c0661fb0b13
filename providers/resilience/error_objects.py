"""Parse the error objects of providers, in all their formats."""

from dataclasses import dataclass
from typing import Any

import orjson

FILTER_CODES = {
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "moderation_blocked",
    "PROHIBITED_CONTENT",
    "ResponsibleAIPolicyViolation",
}
FILTERED_MESSAGES = "content filtering policy", "content management policy"
"""Anthropic's texts, which have no code, and Azure's."""


@dataclass(frozen=True, slots=True)
class ErrorObject:
    message: str = ""
    code: str | None = None
    type: str | None = None
    param: str | None = None
    is_filtered: bool = False
    """Whether a content filter blocked the prompt or the reply."""

    @property
    def identifiers(self) -> set[str]:
        """Return the error's code and type names."""
        return {word for word in (self.code, self.type) if word}


def parse_error(payload: Any) -> ErrorObject:
    """Read `{"error": {…}}`, `{"error": "…"}`, `{"message": …}` or Gemini's list."""
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return _from_message(payload if isinstance(payload, str) else "")
    inner = payload.get("error", payload)
    if not isinstance(inner, dict):
        return _from_message(str(inner))
    # Some providers put the HTTP status here, as a number.
    code = inner.get("code") if isinstance(inner.get("code"), str) else None
    kind = _name(inner.get("type") or inner.get("status"))
    message = _text(inner.get("message") or inner.get("detail"))
    return ErrorObject(
        message=message,
        code=code,
        type=kind,
        param=_name(inner.get("param")),
        is_filtered=bool(FILTER_CODES & {code, kind, _inner_code(inner)})
        or _names_a_filter(message)
        or _is_moderation(inner.get("metadata")),
    )


def _from_message(message: str) -> ErrorObject:
    return ErrorObject(message=message, is_filtered=_names_a_filter(message))


def _names_a_filter(message: str) -> bool:
    return any(text in message for text in FILTERED_MESSAGES)


def _inner_code(error: dict[str, Any]) -> str | None:
    """Return Azure's more specific code."""
    inner = error.get("innererror")
    return _name(inner.get("code")) if isinstance(inner, dict) else None


def _is_moderation(metadata: Any) -> bool:
    """Return whether OpenRouter's moderation blocked the prompt (status 403)."""
    return isinstance(metadata, dict) and "flagged_input" in metadata


def _text(value: Any) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return orjson.dumps(value, default=str).decode()


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
