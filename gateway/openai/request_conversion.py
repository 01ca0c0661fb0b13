"""Converts a client's chat request to a turn request."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pydantic import BaseModel

from access.users.caller import Caller
from core.errors import Invalid
from core.ids import UserId, new_turn_id
from core.messages import Content, Message, ToolCall
from core.text.sanitization import escape_and_truncate
from core.validation import schema_limits
from core.validation.schema_limits import SchemaTooLarge
from gateway.schemas import (
    AssistantMessage,
    ChatMessage,
    ChatRequest,
    CompletionBody,
    JsonObjectFormat,
    JsonSchemaFormat,
    ResponseFormat,
    SystemMessage,
    ToolMessage,
    ToolSubset,
)
from providers.registry import LOG_PROBS, PARAMETERS
from turns import stored_completions
from turns.preparation import options
from turns.turn import TurnRequest

PASSED_PARAMETERS = PARAMETERS - {"response_format"}
"""Parameters that go to the provider, which maps or refuses them; this server enforces
the reply's format itself."""

REFUSED_PARAMETERS = {
    "audio": "replies are text",
    "function_call": "it is deprecated: send 'tool_choice'",
    "functions": "it is deprecated: send 'tools'",
    "web_search_options": "it is not available in this version of Coulisse",
}


def to_turn_request(
    body: ChatRequest, caller: Caller, user_id: UserId, metadata: Mapping[str, str]
) -> TurnRequest:
    """Return the turn that a chat request describes.

    `metadata` is the body's, completed by headers (`options.request_metadata`). Each
    parameter is passed to the provider, used here or refused with `Invalid`.
    """
    _refuse_unsupported(body)
    tools = _check_tools(body)
    turn_id = new_turn_id()
    return TurnRequest(
        turn_id=turn_id,
        agent=body.model,
        user_id=user_id,
        messages=[to_message(message) for message in body.messages],
        options=options.read_options(metadata),
        parameters=_passed_parameters(body),
        extra_parameters=extra_parameters(body),
        tools=tools,
        response_format=_native_format(body.response_format),
        stream=bool(body.stream),
        caller=caller,
        on_end=partial(
            stored_completions.record_completion, user_id, turn_id, body.metadata or {}
        )
        if body.store
        else None,
    )


def _refuse_unsupported(body: ChatRequest) -> None:
    """Raise `Invalid` for OpenAI parameters that this server does not support."""
    for name, reason in REFUSED_PARAMETERS.items():
        # An empty object is a request: `web_search_options: {}` is a search.
        if getattr(body, name) not in (None, False):
            raise unsupported(name, reason)
    if body.n is not None and body.n != 1:
        raise unsupported("n", "a turn has one reply; send several requests")
    if body.modalities is not None and body.modalities != ["text"]:
        raise unsupported("modalities", "replies are text: send ['text']")
    if body.top_logprobs and not body.logprobs:
        raise Invalid(
            "top_logprobs is only allowed when logprobs is true", param="top_logprobs"
        )
    check_stream_options(body)


def check_stream_options(body: CompletionBody) -> None:
    if body.stream_options is not None and not body.stream:
        raise Invalid(
            "stream_options is only allowed when stream is true",
            param="stream_options",
        )


def unsupported(name: str, reason: str) -> Invalid:
    """Return the error for a parameter that this server does not support."""
    return Invalid(
        f"'{name}' is not supported: {reason}",
        param=name,
        code="unsupported_parameter",
    )


def _passed_parameters(body: ChatRequest) -> dict[str, Any]:
    """Return the parameters for the provider that the request sets, also 0 and ""."""
    parameters = {
        name: value
        for name in sorted(PASSED_PARAMETERS & body.model_fields_set)
        if (value := getattr(body, name)) is not None
    }
    if not body.logprobs:
        for name in LOG_PROBS:
            parameters.pop(name, None)
    subset = _tool_subset(body)
    if subset is not None:
        parameters["tool_choice"] = subset["mode"]
    return parameters


def extra_parameters(body: BaseModel) -> dict[str, Any]:
    """Return the parameters that OpenAI's API does not have."""
    extras = body.model_extra or {}
    return {name: value for name, value in extras.items() if value is not None}


def _tool_subset(body: ChatRequest) -> ToolSubset | None:
    """Return the tools to which `tool_choice` limits the model, if it does."""
    match body.tool_choice:
        case {"type": "allowed_tools", "allowed_tools": subset}:
            return cast(ToolSubset, subset)
    return None


def _check_tools(body: ChatRequest) -> Sequence[dict[str, Any]]:
    """Return the tools that the model may call; raises `Invalid` for duplicates and
    unmatched choices."""
    tools: list[Any] = body.tools or []
    subset = _tool_subset(body)
    choice = body.tool_choice if subset is None else subset["mode"]
    if tools or choice != "auto" or body.tools is None:
        check_tools(tools, choice, schema_path="function.parameters")
    if subset is not None:
        tools = _allowed_tools(tools, subset)
    if body.parallel_tool_calls is not None and not tools:
        raise Invalid(
            "parallel_tool_calls is only allowed with tools",
            param="parallel_tool_calls",
        )
    return tools


def _allowed_tools(tools: Sequence[Any], subset: ToolSubset) -> list[Any]:
    names = {tool["function"]["name"] for tool in tools}
    allowed = {tool["function"]["name"] for tool in subset["tools"]}
    for name in sorted(allowed):
        check_choice(name, names)
    return [tool for tool in tools if tool["function"]["name"] in allowed]


def check_tools(
    tools: Sequence[dict[str, Any]], choice: Any, *, schema_path: str
) -> None:
    """Raise `Invalid` for duplicate tools, large schemas and unmatched choices.

    `schema_path` is where the request has the schema of a tool's arguments.
    """
    names: set[str] = set()
    for position, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name in names:
            raise Invalid(
                f"two tools have the name '{escape_and_truncate(name)}'; rename one",
                param="tools",
            )
        names.add(name)
        _check_arguments(
            tool["function"].get("parameters"), f"tools[{position}].{schema_path}"
        )
    if choice is not None and choice != "none":
        _check_choice(choice, names)


def _check_arguments(schema: Any, param: str) -> None:
    """Raise `Invalid` for an argument schema that exceeds the limits."""
    try:
        schema_limits.check_schema(schema)
    except SchemaTooLarge as exc:
        raise Invalid(f"{param} {exc}", param=param) from exc


def _check_choice(choice: Any, names: Collection[str]) -> None:
    if not names:
        raise Invalid("tool_choice is only allowed with tools", param="tool_choice")
    if isinstance(choice, dict):
        check_choice(choice["function"]["name"], names)


def check_choice(chosen: str, names: Collection[str]) -> None:
    """Raise `Invalid` if a choice names none of the tools."""
    if chosen not in names:
        raise Invalid(
            f"tool_choice names '{escape_and_truncate(chosen)}', which is not in tools",
            param="tool_choice",
        )


def _native_format(response_format: ResponseFormat | None) -> dict[str, Any] | None:
    """Return `response_format` in OpenAI's shape, or None for free text."""
    if isinstance(response_format, JsonObjectFormat | JsonSchemaFormat):
        return response_format.model_dump(by_alias=True, exclude_none=True)
    return None


CACHE_CONTROL = "cache_control"


def to_message(message: ChatMessage) -> Message:
    """Return a client's message; `developer` is OpenAI's newer name of `system`.

    A mark for caching on any part applies to the end of the message.
    """
    converted = _without_marks(message)
    if message.content is None or isinstance(message.content, str):
        return converted
    parts: list[Any] = list(message.content)
    marks = [mark for part in parts if (mark := part.get(CACHE_CONTROL))]
    return replace(converted, cache_control=marks[-1]) if marks else converted


def _without_marks(message: ChatMessage) -> Message:
    match message:
        case SystemMessage():
            return Message(
                "system", _join_text_parts(message.content), name=message.name
            )
        case AssistantMessage():
            return Message(
                "assistant",
                _join_text_parts(message.content) or message.refusal,
                name=message.name,
                tool_calls=tuple(
                    ToolCall(call.id, call.function.name, call.function.arguments)
                    for call in message.tool_calls or ()
                ),
            )
        case ToolMessage():
            return Message(
                "tool",
                _join_text_parts(message.content),
                tool_call_id=message.tool_call_id,
            )
        case _:
            return Message("user", _join_text_parts(message.content), name=message.name)


def _join_text_parts(content: Any) -> Content:
    """Return parts that are all text as one text, which every provider accepts."""
    if content is None or isinstance(content, str):
        return content
    if all(part["type"] == "text" for part in content):
        return "".join(part["text"] for part in content)
    return [_to_chat_part(part) for part in content if part["type"] != "refusal"]


def _to_chat_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part; `input_file` is the name of files in OpenAI's other endpoints."""
    if part["type"] == "input_file":
        return {"type": "file", "file": {"file_id": part["file_id"]}}
    return {key: part[key] for key in part if key != CACHE_CONTROL}
