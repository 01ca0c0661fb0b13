"""Converts a request for a message to a turn request."""

from collections.abc import Mapping
from typing import Any

from access.users.caller import Caller
from core.ids import UserId
from gateway.anthropic import input_messages
from gateway.anthropic.schemas import (
    ClientTool,
    CountRequest,
    MessageRequest,
    ToolChoice,
)
from gateway.openai import request_conversion as chat
from gateway.request_validation import validation_errors
from turns.preparation import options
from turns.turn import TurnRequest

EFFORTS = ((2048, "low"), (12_000, "medium"), (28_000, "high"))
"""The `reasoning_effort` for a budget up to these tokens; `xhigh` above."""
CHOICES = {"any": "required", "auto": "auto", "none": "none"}


def to_turn_request(
    body: MessageRequest, caller: Caller, user_id: UserId, metadata: Mapping[str, str]
) -> TurnRequest:
    """Return the turn that a request describes; raises `Invalid`.

    `metadata` has the options of the turn.
    """
    tools = read_tools(body)
    return TurnRequest(
        agent=body.model,
        user_id=user_id,
        messages=input_messages.to_messages(body.system, body.messages),
        options=options.read_options(metadata),
        parameters=_parameters(body, has_tools=bool(tools)),
        extra_parameters=dict(body.extra_parameters()),
        tools=tools,
        response_format=native_format(body),
        stream=bool(body.stream),
        caller=caller,
    )


def read_tools(body: CountRequest) -> list[dict[str, Any]]:
    """Return the client's tools in chat's format; raises `Invalid`."""
    if body.mcp_servers:
        raise chat.unsupported("mcp_servers", "an agent's servers are in its settings")
    if body.container is not None:
        raise chat.unsupported("container", "code runs in tools of the agent")
    tools = [_to_chat_tool(tool, index) for index, tool in enumerate(body.tools or ())]
    choice = body.tool_choice
    if choice is not None and choice.type in ("auto", "none"):
        choice = None
    chat.check_tools(tools, _chat_choice(choice), schema_path="input_schema")
    return tools


def _to_chat_tool(tool: ClientTool, index: int) -> dict[str, Any]:
    if tool.input_schema is None:
        raise validation_errors.missing_parameter(f"tools[{index}].input_schema")
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    marked = {"cache_control": tool.cache_control} if tool.cache_control else {}
    return {"type": "function", "function": function, **marked}


def _chat_choice(choice: ToolChoice | None) -> Any:
    if choice is None or choice.type != "tool":
        return None if choice is None else CHOICES[choice.type]
    if choice.name is None:
        raise validation_errors.missing_parameter("tool_choice.name")
    return {"type": "function", "function": {"name": choice.name}}


def _parameters(body: MessageRequest, *, has_tools: bool) -> dict[str, Any]:
    """Return the parameters for the provider under chat's names."""
    given: dict[str, Any] = {
        "max_tokens": body.max_tokens,
        "reasoning_effort": _effort(body),
        "stop": body.stop_sequences or None,
        "temperature": body.temperature,
        "top_p": body.top_p,
    }
    if body.service_tier == "standard_only":
        given["service_tier"] = "default"
    if has_tools and body.tool_choice is not None:
        given["tool_choice"] = _chat_choice(body.tool_choice)
        if body.tool_choice.disable_parallel_tool_use:
            given["parallel_tool_calls"] = False
    return {name: value for name, value in given.items() if value is not None}


def _effort(body: MessageRequest) -> str | None:
    """Return how much to think; None leaves it to the agent's settings."""
    if body.thinking is None or body.thinking.type == "disabled":
        return None
    if (budget := body.thinking.budget_tokens) is None:
        return None if body.output_config is None else body.output_config.effort
    return next((name for limit, name in EFFORTS if budget <= limit), "xhigh")


def native_format(body: CountRequest) -> dict[str, Any] | None:
    """Return the format of the reply in chat's shape, or None for free text."""
    if body.output_config is None or body.output_config.format is None:
        return None
    schema = {"name": "reply", "schema": body.output_config.format.schema_}
    return {"type": "json_schema", "json_schema": schema}
