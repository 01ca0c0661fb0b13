"""Attributes of spans, by OpenTelemetry's conventions for generative AI.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/
What the conventions lack has a name of Coulisse's own: `turn_id`, `cost_usd`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from config.sections import Config
from core.events import Usage
from core.messages import Message
from core.text import redaction
from core.trace import ModelCall, TracedToolCall
from providers.config import PROVIDERS
from telemetry.tracing.spans import Value

MAX_CONTENT_LENGTH = 16_384
"""Characters of a prompt, a reply, arguments or a result."""
UNKNOWN_ERROR = "_OTHER"
PROVIDER_NAMES = {"gemini": "gcp.gemini"}
"""The conventions' names of kinds of providers, where they are not Coulisse's."""


def of_usage(usage: Usage | None) -> dict[str, Value]:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
    }


def of_model_call(call: ModelCall, config: Config) -> dict[str, Value]:
    provider = config.get(PROVIDERS).get(call.provider)
    kind = call.provider if provider is None else provider.kind
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDER_NAMES.get(kind, kind),
        "gen_ai.request.model": call.model,
        "gen_ai.response.model": call.model if call.finish_reason else None,
        "gen_ai.response.finish_reasons": [call.finish_reason]
        if call.finish_reason
        else None,
        **of_usage(call.usage),
        **of_agent(call.agent),
        "provider": call.provider,
        "attempts": len(call.attempts),
        "cost_usd": usd(call.cost_micro_usd),
        "error.type": error_type(call),
    }


def of_tool_call(call: TracedToolCall, *, content: bool) -> dict[str, Value]:
    found: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
        "tool_name": call.name,
        "kind": call.kind,
        "target": call.target,
        "error.type": error_type(call),
    }
    if content:
        found["gen_ai.tool.call.arguments"] = cut(call.arguments)
        found["gen_ai.tool.call.result"] = cut(call.result or "")
    return found


def of_agent(agent: str) -> dict[str, Value]:
    return {"gen_ai.agent.name": agent, "agent": agent}


def of_messages(prompt: Sequence[Message], reply: str) -> dict[str, Value]:
    """Return the content of a turn: the prompt as the model received it, the reply."""
    return {
        "gen_ai.input.messages": cut(_as_json(map(_as_message, prompt))),
        "gen_ai.output.messages": cut(_as_json([_text_message("assistant", reply)])),
    }


def error_type(call: ModelCall | TracedToolCall) -> str | None:
    return (call.error_type or UNKNOWN_ERROR) if call.error is not None else None


def usd(micro_usd: int | None) -> float | None:
    return None if micro_usd is None else micro_usd / 1_000_000


def cut(text: str) -> str:
    """Return a text without the server's secrets, at most `MAX_CONTENT_LENGTH` long."""
    return redaction.redact_own(text)[:MAX_CONTENT_LENGTH]


def _as_message(message: Message) -> Mapping[str, Any]:
    return _text_message(message.role, message.text)


def _text_message(role: str, text: str) -> Mapping[str, Any]:
    part = {"type": "text", "content": text[:MAX_CONTENT_LENGTH]}
    return {"role": role, "parts": [part]}


def _as_json(messages: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps(list(messages), ensure_ascii=False)
