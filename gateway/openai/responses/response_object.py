"""OpenAI's response object, from a request and a turn."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from core import ids
from core.errors import CoulisseError, Invalid, Limited
from core.events import FinishReason, Usage
from core.ids import TurnId
from core.reply import Reply
from gateway import errors
from gateway.openai import serializers
from gateway.openai.responses import output_items, request_echo
from gateway.openai.responses.request_conversion import ENCRYPTED_REASONING
from gateway.openai.responses.schemas import ResponseRequest
from providers.errors import RateLimited

Status = Literal[
    "completed", "failed", "in_progress", "cancelled", "queued", "incomplete"
]

INCOMPLETE_REASONS: dict[FinishReason, str] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The fields of a response that are known before its reply."""

    turn_id: TurnId
    model: str
    """The agent's name."""
    echo: dict[str, Any] = field(default_factory=lambda: request_echo.DEFAULTS)
    """The fields that repeat the request."""
    wants_encrypted_reasoning: bool = False
    created_at: int = field(default_factory=lambda: int(time.time()))
    """Seconds since 1970."""

    @classmethod
    def of(cls, body: ResponseRequest, turn_id: TurnId) -> "ResponseHead":
        """Return the head of a response that begins now."""
        wants_encrypted = ENCRYPTED_REASONING in (body.include or ())
        return cls(turn_id, body.model, request_echo.echo(body), wants_encrypted)

    @property
    def id(self) -> str:
        return ids.format_response_id(self.turn_id, is_stored=self.echo["store"])

    def to_response(
        self,
        status: Status,
        output: Sequence[dict[str, Any]] = (),
        usage: Usage | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the response; `more` are fields that differ from null."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": list(output),
            # OpenAI's schema allows no null.
            **({} if usage is None else {"usage": serialize_usage(usage)}),
            **self.echo,
            **more,
        }


def serialize_reply(head: ResponseHead, reply: Reply) -> dict[str, Any]:
    """Return the response with a complete reply."""
    reason = reply.finish_reason or "stop"
    items = output_items.items_of_reply(
        head.turn_id,
        reply,
        item_status(reason),
        with_blocks=head.wants_encrypted_reasoning,
    )
    return {
        **finished(head, reason, items, reply.usage or Usage()),
        **serializers.coulisse_fields(reply.served_by),
    }


def item_status(reason: FinishReason) -> Status:
    """Return the status of items, and of the response, with this finish reason."""
    return "incomplete" if reason in INCOMPLETE_REASONS else "completed"


def finished(
    head: ResponseHead,
    reason: FinishReason,
    items: Sequence[dict[str, Any]],
    usage: Usage | None,
    completed_at: int | None = None,
) -> dict[str, Any]:
    """Return a response whose reply has ended, by default now."""
    status = item_status(reason)
    if status == "incomplete":
        details = {"reason": INCOMPLETE_REASONS[reason]}
        return head.to_response(status, items, usage, incomplete_details=details)
    at = int(time.time()) if completed_at is None else completed_at
    return head.to_response(status, items, usage, completed_at=at)


def serialize_usage(usage: Usage) -> dict[str, Any]:
    """Return OpenAI's usage object; `input_tokens` includes the cached ones."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def serialize_error(error: CoulisseError | None) -> dict[str, str]:
    """Return the `error` of a failed response, whose codes OpenAI's schema lists."""
    if error is None:
        return {"code": "server_error", "message": errors.INTERNAL_ERROR_MESSAGE}
    code = "server_error"
    if isinstance(error, Limited | RateLimited):
        code = "rate_limit_exceeded"
    elif isinstance(error, Invalid):
        code = "invalid_prompt"
    return {"code": code, "message": error.message}
