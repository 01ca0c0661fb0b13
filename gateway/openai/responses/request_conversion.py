"""Converts a request for a response to a turn request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from access.users.caller import Caller
from core.errors import Invalid
from core.ids import UserId
from core.messages import Message
from gateway.openai import request_conversion as chat
from gateway.openai.responses import input_items, request_echo
from gateway.openai.responses.schemas import (
    AllowedTools,
    FunctionTool,
    JsonSchemaFormat,
    NamedFunction,
    ResponseRequest,
)
from gateway.schemas import JsonObjectFormat
from turns.preparation.options import TurnOptions
from turns.turn import TurnRequest

REFUSED_PARAMETERS = {
    "context_management": "an agent's context is in its configuration",
    "moderation": "moderation results are not returned",
    "prompt": "prompts are agents' preambles here: name the agent in 'model'",
    "top_logprobs": "log probabilities are not returned",
}
LOGPROBS = "message.output_text.logprobs"
ENCRYPTED_REASONING = "reasoning.encrypted_content"

SAME_PARAMETERS = (
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "temperature",
    "top_p",
)
"""Parameters with the same name and meaning as in chat."""


def to_turn_request(
    body: ResponseRequest,
    caller: Caller,
    user_id: UserId,
    options: TurnOptions,
    stored_items: Mapping[str, Message],
) -> TurnRequest:
    """Return the turn that a request describes, after `refuse_unsupported`.

    `stored_items` has the items that its input refers to, by id. Each parameter is
    passed to the provider, used here or refused with `Invalid`.
    """
    messages = _read_messages(body, stored_items)
    _check_continuation(body, messages)
    tools = _read_tools(body)
    return TurnRequest(
        agent=body.model,
        user_id=user_id,
        messages=messages,
        options=options,
        parameters=_parameters(body, has_tools=bool(tools)),
        extra_parameters=chat.extra_parameters(body),
        tools=tools,
        response_format=_native_format(body),
        stored_fields=request_echo.stored_fields(body) if body.is_stored else {},
        stream=bool(body.stream),
        caller=caller,
    )


def refuse_unsupported(body: ResponseRequest) -> None:
    """Raise `Invalid` for parameters that this server does not support."""
    for name, reason in REFUSED_PARAMETERS.items():
        if getattr(body, name) not in (None, 0):
            raise chat.unsupported(name, reason)
    if LOGPROBS in (body.include or ()):
        raise chat.unsupported("include", "log probabilities are not returned")
    if body.previous_response_id is not None and body.conversation is not None:
        raise Invalid(
            "send 'previous_response_id' or 'conversation', not both",
            param="previous_response_id",
        )


def _read_messages(
    body: ResponseRequest, stored_items: Mapping[str, Message]
) -> Sequence[Message]:
    messages = input_items.to_messages(body.input, stored_items)
    if body.instructions is not None:
        return [Message("system", body.instructions), *messages]
    if not messages:
        raise Invalid("input has reasoning alone: send a message", param="input")
    return messages


def _check_continuation(body: ResponseRequest, messages: Sequence[Message]) -> None:
    """Raise `Invalid` if a request continues a conversation and also contains it."""
    param = continuation_param(body)
    if param is not None and any(each.role == "assistant" for each in messages):
        raise Invalid(
            f"with '{param}' the input is what follows in the conversation: send no "
            "replies or calls of the assistant",
            param="input",
        )


def continuation_param(body: ResponseRequest) -> str | None:
    """Return the parameter that names the conversation to continue, if any."""
    for name in ("previous_response_id", "conversation"):
        if getattr(body, name) is not None:
            return name
    return None


def _read_tools(body: ResponseRequest) -> list[dict[str, Any]]:
    """Return the tools that the model may call, in chat's format."""
    tools = [_to_chat_tool(tool) for tool in body.tools or ()]
    choice = body.tool_choice
    if choice == "auto" and not tools:
        return []
    if isinstance(choice, AllowedTools):
        allowed = {tool.name for tool in choice.tools}
        chat.check_tools(tools, None, schema_path="parameters")
        for name in sorted(allowed):
            chat.check_choice(name, [tool["function"]["name"] for tool in tools])
        return [tool for tool in tools if tool["function"]["name"] in allowed]
    chat.check_tools(tools, _chat_choice(choice), schema_path="parameters")
    return tools


def to_chat_tools(tools: Iterable[FunctionTool]) -> list[dict[str, Any]]:
    """Return tools in chat's format; raises `Invalid` for duplicates and large
    schemas."""
    converted = list(map(_to_chat_tool, tools))
    chat.check_tools(converted, None, schema_path="parameters")
    return converted


def _to_chat_tool(tool: FunctionTool) -> dict[str, Any]:
    function = tool.model_dump(exclude={"type"}, exclude_none=True)
    return {"type": "function", "function": function}


def _chat_choice(choice: str | NamedFunction | AllowedTools | None) -> Any:
    if isinstance(choice, NamedFunction):
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode if isinstance(choice, AllowedTools) else choice


def _parameters(body: ResponseRequest, *, has_tools: bool) -> dict[str, Any]:
    """Return the parameters for the provider that the request sets, under chat's
    names."""
    given = {name: getattr(body, name) for name in SAME_PARAMETERS}
    given["max_completion_tokens"] = body.max_output_tokens
    given["reasoning_effort"] = body.reasoning and body.reasoning.effort
    given["verbosity"] = body.text and body.text.verbosity
    if has_tools:
        given["tool_choice"] = _chat_choice(body.tool_choice)
        given["parallel_tool_calls"] = body.parallel_tool_calls
    # Providers do this by default, and few accept the parameter.
    if body.service_tier == "auto":
        del given["service_tier"]
    return {name: value for name, value in given.items() if value is not None}


def _native_format(body: ResponseRequest) -> dict[str, Any] | None:
    """Return the format of the reply in chat's shape, or None for free text."""
    match body.text and body.text.format:
        case JsonObjectFormat():
            return {"type": "json_object"}
        case JsonSchemaFormat() as schema:
            fields = schema.model_dump(
                by_alias=True, exclude={"type"}, exclude_none=True
            )
            return {"type": "json_schema", "json_schema": fields}
        case _:
            return None
