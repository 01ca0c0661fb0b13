"""Converts a client's chat request to a turn request."""

from collections.abc import Collection, Sequence
from typing import Any

from access.users.caller import Caller
from core.errors import Invalid
from core.ids import UserId, new_turn_id
from core.messages import Content, Message, ToolCall
from core.runtime import request_ids
from core.text.sanitization import escape_and_truncate
from core.validation import schema_limits
from core.validation.schema_limits import SchemaTooLarge
from gateway.schemas import (
    AssistantMessage,
    ChatMessage,
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    ResponseFormat,
    SystemMessage,
    ToolMessage,
)
from providers.registry import PARAMETERS
from turns.preparation import options
from turns.structured_output import reply_format
from turns.turn import TurnRequest

PASSED_PARAMETERS = sorted(PARAMETERS - {"response_format"})
"""Parameters that go to the provider, which maps or refuses them; this server enforces
the reply's format itself."""

REFUSED_PARAMETERS = {
    "audio": "replies are text",
    "function_call": "it is deprecated: send 'tool_choice'",
    "functions": "it is deprecated: send 'tools'",
    "logprobs": "log probabilities are not returned",
    "top_logprobs": "log probabilities are not returned",
    "web_search_options": "it is not available in this version of Coulisse",
}


def to_turn_request(body: ChatRequest, caller: Caller, user_id: UserId) -> TurnRequest:
    """Return the turn that a chat request describes.

    Each parameter is passed to the provider, used here or refused with `Invalid`.
    """
    _refuse_unsupported(body)
    return TurnRequest(
        turn_id=new_turn_id(),
        agent=body.model,
        user_id=user_id,
        messages=[to_message(message) for message in body.messages],
        options=options.read_options(body.metadata or {}),
        parameters=_passed_parameters(body),
        tools=_check_tools(body),
        format=_to_format(body.response_format),
        response_format=_native_format(body.response_format),
        stream=bool(body.stream),
        caller=caller,
        request_id=request_ids.current.get(),
    )


def _refuse_unsupported(body: ChatRequest) -> None:
    """Raise `Invalid` for OpenAI parameters that this server does not support."""
    for name, reason in REFUSED_PARAMETERS.items():
        # `logprobs: false` requests nothing; `web_search_options: {}` requests a
        # search.
        if getattr(body, name) not in (None, False):
            raise _unsupported(name, reason)
    if body.n is not None and body.n != 1:
        raise _unsupported("n", "a turn has one reply; send several requests")
    if body.modalities is not None and body.modalities != ["text"]:
        raise _unsupported("modalities", "replies are text: send ['text']")
    if body.stream_options is not None and not body.stream:
        raise Invalid(
            "stream_options is only allowed when stream is true",
            param="stream_options",
        )


def _unsupported(name: str, reason: str) -> Invalid:
    return Invalid(
        f"'{name}' is not supported: {reason}",
        param=name,
        code="unsupported_parameter",
    )


def _passed_parameters(body: ChatRequest) -> dict[str, Any]:
    """Return the parameters for the provider that the request sets, also 0 and ""."""
    return {
        name: value
        for name in PASSED_PARAMETERS
        if name in body.model_fields_set and (value := getattr(body, name)) is not None
    }


def _check_tools(body: ChatRequest) -> Sequence[dict[str, Any]]:
    """Return the client's tools; raises `Invalid` for duplicates and unmatched
    choices."""
    tools: list[Any] = body.tools or []
    names: set[str] = set()
    for position, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name in names:
            raise Invalid(
                f"two tools have the name '{escape_and_truncate(name)}'; rename one",
                param="tools",
            )
        names.add(name)
        _check_arguments(tool["function"].get("parameters"), position)
    if body.tool_choice is not None and body.tool_choice != "none":
        _check_choice(body.tool_choice, names)
    if body.parallel_tool_calls is not None and not tools:
        raise Invalid(
            "parallel_tool_calls is only allowed with tools",
            param="parallel_tool_calls",
        )
    return tools


def _check_arguments(schema: Any, position: int) -> None:
    """Raise `Invalid` for an argument schema that exceeds the limits."""
    param = f"tools[{position}].function.parameters"
    try:
        schema_limits.check_schema(schema)
    except SchemaTooLarge as exc:
        raise Invalid(f"{param} {exc}", param=param) from exc


def _check_choice(choice: Any, names: Collection[str]) -> None:
    if not names:
        raise Invalid("tool_choice is only allowed with tools", param="tool_choice")
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        name = escape_and_truncate(choice["function"]["name"])
        raise Invalid(
            f"tool_choice names '{name}', which is not in tools",
            param="tool_choice",
        )


def _to_format(
    response_format: ResponseFormat | None,
) -> reply_format.ReplyFormat | None:
    """Return the required format of the reply, or None for free text."""
    if isinstance(response_format, JsonObjectFormat):
        return reply_format.json_object()
    if isinstance(response_format, JsonSchemaFormat):
        schema = response_format.json_schema
        return reply_format.json_schema(schema.name, schema.schema_, schema.description)
    return None


def _native_format(response_format: ResponseFormat | None) -> dict[str, Any] | None:
    """Return `response_format` in OpenAI's shape, or None for free text."""
    if isinstance(response_format, JsonObjectFormat | JsonSchemaFormat):
        return response_format.model_dump(by_alias=True, exclude_none=True)
    return None


def to_message(message: ChatMessage) -> Message:
    """Return a client's message; `developer` is OpenAI's newer name of `system`."""
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
    return [part for part in content if part["type"] != "refusal"]
