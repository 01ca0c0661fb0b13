"""OpenAI's chat completion objects and the response headers, from a turn's events."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from core import ids, money
from core.events import LogProbs, ServedBy, Usage
from core.ids import TurnId
from core.messages import ToolCall
from core.reply import Reply

PROVIDER_HEADER = "X-Coulisse-Provider"
MODEL_HEADER = "X-Coulisse-Model"
RESCUES_HEADER = "X-Coulisse-Rescues"
ATTEMPTS_HEADER = "X-Coulisse-Attempts"
COST_HEADER = "X-Coulisse-Cost-Usd"
SAFETY_HEADER = "X-Coulisse-Safety"


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """The fields that every object of one reply starts with."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    """The agent's name."""

    def fields(self, kind: str) -> dict[str, Any]:
        """Return the head as the first fields of an object of that type."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
        }


def new_head(turn_id: TurnId, agent: str) -> ObjectHead:
    """Return the head of a reply that begins now."""
    return ObjectHead(ids.format_completion_id(turn_id), int(time.time()), agent)


def serialize_completion(head: ObjectHead, reply: Reply) -> dict[str, Any]:
    """Return a complete reply as a `chat.completion`."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or (None if _has_other_output(reply) else ""),
        "refusal": reply.refusal or None,
    }
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = serialize_calls(reply.tool_calls)
    return {
        **head.fields("chat.completion"),
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": serialize_log_probs(reply.log_probs),
                "finish_reason": reply.finish_reason,
            }
        ],
        "usage": serialize_usage(reply.usage or Usage()),
        **coulisse_fields(reply.served_by),
    }


def serialize_calls(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """Return tool calls as a message has them."""
    return [call.serialize() for call in calls]


def _has_other_output(reply: Reply) -> bool:
    return bool(reply.tool_calls or reply.refusal)


def serialize_log_probs(log_probs: LogProbs | None) -> dict[str, Any] | None:
    """Return the `logprobs` of a choice."""
    if log_probs is None:
        return None
    return {"content": log_probs.content or None, "refusal": log_probs.refusal or None}


def serialize_usage(usage: Usage) -> dict[str, Any]:
    """Return OpenAI's usage object; `prompt_tokens` includes the cached ones."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def format_cost(served_by: ServedBy | None) -> str | None:
    """Return the cost of a turn in dollars, `0.001234`; None if unknown."""
    if served_by is None or served_by.cost_micro_usd is None:
        return None
    return money.decimal_usd(served_by.cost_micro_usd)


def coulisse_fields(served_by: ServedBy | None) -> dict[str, Any]:
    """Return Coulisse's own field next to `usage`, if any.

    It is not within `usage`, since clients add up the integers there.
    """
    if served_by is None:
        return {}
    fields: dict[str, Any] = {}
    if served_by.model:  # A safety check may have replied.
        fields |= {"provider": served_by.provider, "model": served_by.model}
    if served_by.rescues:
        fields["rescues"] = served_by.rescues
    if served_by.cost_micro_usd is not None:
        fields["cost_usd"] = served_by.cost_micro_usd / 1_000_000
    if served_by.safety is not None:
        fields["safety"] = served_by.safety
    return {"coulisse": fields} if fields else {}


def format_safety(safety: Mapping[str, Any]) -> str:
    """Return the levels of safety checks as a header: `crisis=none, pii=found`."""
    levels = safety["levels"].items()
    return ", ".join(f"{quote(name)}={quote(level)}" for name, level in levels)


def serving_headers(provider: str, attempts: int) -> dict[str, str]:
    """Return the headers for the provider that replied or failed, and the attempts.

    For a stream, as of its start.
    """
    headers = {ATTEMPTS_HEADER: str(attempts)}
    if provider:  # A safety check may have replied.
        # Provider names may contain any characters, headers only ASCII.
        headers[PROVIDER_HEADER] = quote(provider)
    return headers
