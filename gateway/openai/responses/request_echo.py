"""The fields of a response that repeat its request."""

from itertools import accumulate
from typing import Any

import orjson

from gateway.openai.responses.schemas import (
    FunctionTool,
    ResponseRequest,
    TextSettings,
)

DEFAULTS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
"""The fields of a response whose request has none of them."""

MAX_STORED_BYTES = 64 * 1024
"""JSON of all fields that are stored with a reply; the largest are left out."""


def echo(body: ResponseRequest) -> dict[str, Any]:
    """Return the fields of a response that repeat its request."""
    given = body.model_dump(
        include={*DEFAULTS, "user"} - {"tools", "text"}, exclude_none=True
    )
    fields = {**DEFAULTS, **given}
    if body.tools:
        fields["tools"] = [_echo_tool(tool) for tool in body.tools]
    if body.text is not None:
        fields["text"] = _echo_text(body.text)
    if body.conversation is not None:
        fields["conversation"] = {"id": body.conversation}
    return fields


def stored_fields(body: ResponseRequest) -> dict[str, Any]:
    """Return the fields to store with the reply: those that are not the defaults."""
    fields = {
        name: value
        for name, value in echo(body).items()
        if name not in DEFAULTS or value != DEFAULTS[name]
    }
    sizes = {name: len(orjson.dumps(value)) for name, value in fields.items()}
    names = sorted(sizes, key=lambda name: sizes[name])
    totals = accumulate(sizes[name] for name in names)
    return {
        name: fields[name]
        for name, total in zip(names, totals, strict=True)
        if total <= MAX_STORED_BYTES
    }


def _echo_tool(tool: FunctionTool) -> dict[str, Any]:
    # OpenAI's schema requires these two.
    defaults = {"parameters": None, "strict": None}
    return {**defaults, **tool.model_dump(exclude_none=True)}


def _echo_text(text: TextSettings) -> dict[str, Any]:
    given = text.model_dump(by_alias=True, exclude_none=True)
    return {**DEFAULTS["text"], **given}
