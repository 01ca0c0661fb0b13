"""Build request bodies of Anthropic's Messages API."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from core.errors import Invalid
from core.messages import Content, Message, Reasoning, ToolCall
from core.text.sanitization import escape_and_truncate
from providers.model_request import ModelRequest
from providers.wires import cache_marks, tool_images

DEFAULT_MAX_TOKENS = 8192
"""The API requires a limit; this one is for callers that set none."""
DEFAULT_THINKING_MAX_TOKENS = 32_768
"""The same for models that choose how much to think within the limit."""

CACHE_SYSTEM_CHARS = 4_000
"""A system prompt longer than this (about 1,000 tokens, the least the API caches) is
marked as worth caching."""
EPHEMERAL = {"type": "ephemeral"}

THINKING_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
THINKING_BUDGETS |= {"xhigh": 32768, "max": 32768}
"""Thinking tokens for each `reasoning_effort`, on models that take a budget."""
EFFORTS = {"minimal": "low"}
"""OpenAI's names of effort that differ, on models that choose the amount."""

VERSION_IN_NAME = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
FIRST_ADAPTIVE = (4, 6)

UNUSUAL_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")

DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(.*)", re.DOTALL)


def build_body(call: ModelRequest) -> dict[str, Any]:
    """Return the JSON body of a call.

    Raises `Invalid` for content that the API does not support.
    """
    body: dict[str, Any] = {"model": call.model, "messages": _messages(call.messages)}
    system = _system(call.messages)
    if system:
        body["system"] = system
    if call.tools:
        body["tools"] = [_tool(tool) for tool in call.tools]
    cache_marks.limit(body)
    body |= _parameters(call)
    if call.user is not None:
        body["metadata"] = {"user_id": call.user}
    if call.stream:
        body["stream"] = True
    return {**call.extra_parameters, **body, **call.extra_body}


def _system(messages: Sequence[Message]) -> str | list[dict[str, Any]]:
    """Return the system messages; if worth caching, as blocks, the last one marked.

    The mark covers the tools too, which precede the system prompt. History is not
    marked: it changes with recall and windowing, and a cache write without later reads
    costs more than no cache.
    """
    system = [m for m in messages if m.role == "system" and m.text.strip()]
    is_long = sum(len(message.text) for message in system) > CACHE_SYSTEM_CHARS
    if not is_long and not any(message.cache_control for message in system):
        return "\n\n".join(message.text for message in system)
    blocks = [_marked([_text_block(each.text)], each)[0] for each in system]
    if is_long:
        blocks[-1].setdefault("cache_control", EPHEMERAL)
    return blocks


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the conversation: alternating roles, user first, results before text."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _marked(_blocks(message), message)
        if not blocks:
            continue
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [_text_block("(continued)")]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        # Tool results first; the order of other blocks stays.
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if not turns:
        raise Invalid("messages must include one with content", param="messages")
    return turns


def _marked(blocks: list[dict[str, Any]], message: Message) -> list[dict[str, Any]]:
    """Return a message's blocks, the last one with the client's mark for caching."""
    if message.cache_control and blocks and "thinking" not in blocks[-1]["type"]:
        blocks[-1]["cache_control"] = message.cache_control
    return blocks


def _blocks(message: Message) -> list[dict[str, Any]]:
    match message.role:
        case "tool":
            return [_tool_result(message)]
        case "assistant":
            return [
                *_signed_thinking(message.reasoning),
                *_content(message.content),
                *map(_tool_use, message.tool_calls),
            ]
        case _:
            return _content(message.content)


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _content(content: Content) -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        # The API refuses text that is empty or blank.
        return [_text_block(content)] if content.strip() else []
    blocks = (_part(part) for part in content)
    return [block for block in blocks if block is not None]


def _part(part: Mapping[str, Any]) -> dict[str, Any] | None:
    match part.get("type"):
        case "text" | "refusal" as kind:
            text = part.get(kind) or ""
            return _text_block(text) if text.strip() else None
        case "image_url":
            return _image(part.get("image_url"))
        case "file":
            return _document(part.get("file") or {})
    kind = escape_and_truncate(str(part.get("type")))
    raise Invalid(
        f"this model does not support message parts of type '{kind}'",
        param="messages",
        code="unsupported_content",
    )


def _image(image: Any) -> dict[str, Any]:
    url = str(image.get("url", "") if isinstance(image, Mapping) else image or "")
    return {"type": "image", "source": _source(url)}


def _document(file: Mapping[str, Any]) -> dict[str, Any]:
    document = {"type": "document", "source": _source(file.get("file_data") or "")}
    name = file.get("filename")
    return document | {"title": name} if name else document


def _source(url: str) -> dict[str, Any]:
    if url[:8].lower().startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    match = DATA_URL.match(url)
    if match is None:
        raise Invalid(
            "images and files must be http(s) URLs or base64 data: URLs",
            param="messages",
            code="unsupported_content",
        )
    return {"type": "base64", "media_type": match[1], "data": match[2]}


def _signed_thinking(blocks: Iterable[Reasoning]) -> list[dict[str, Any]]:
    """Return the thinking to send back: only blocks that Anthropic signed."""
    return [
        {"type": "redacted_thinking", "data": block.redacted}
        if block.redacted
        else {"type": "thinking", "thinking": block.text, "signature": block.signature}
        for block in blocks
        if block.redacted or block.signature
    ]


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _id(call.id),
        "name": call.name,
        "input": _input(call.arguments),
    }


def _id(call_id: str) -> str:
    """Return a call's id with only the characters that the API accepts."""
    return UNUSUAL_IN_ID.sub("_", call_id)


def _input(arguments: str) -> dict[str, Any]:
    """Return arguments as an object; invalid JSON is passed on as text."""
    try:
        value = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return {"_invalid_json": arguments}
    return value if isinstance(value, dict) else {"_value": value}


def _tool_result(message: Message) -> dict[str, Any]:
    call_id = _id(message.tool_call_id or "")
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    content = _content(tool_images.showable_content(message.content))
    return result | {"content": content} if content else result


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function") or {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    mapped = {"name": function.get("name"), "input_schema": schema}
    optional = {
        "description": function.get("description"),
        "cache_control": tool.get("cache_control"),
    }
    return mapped | {name: value for name, value in optional.items() if value}


def _parameters(call: ModelRequest) -> dict[str, Any]:
    parameters = {
        name: value for name, value in call.parameters.items() if value is not None
    }
    body: dict[str, Any] = {}
    if "temperature" in parameters:
        # Anthropic's own OpenAI-compatible endpoint caps it the same way.
        body["temperature"] = min(parameters["temperature"], 1)
    if "top_p" in parameters:
        body["top_p"] = parameters["top_p"]
    if "stop" in parameters:
        body["stop_sequences"] = _stop_sequences(parameters["stop"])
    if "service_tier" in parameters:
        body["service_tier"] = _service_tier(parameters["service_tier"])
    if call.tools:
        body |= _tool_choice(parameters)
    limit = parameters.get("max_completion_tokens", parameters.get("max_tokens"))
    is_adaptive = has_adaptive_thinking(call.model)
    if not is_adaptive and _continues_without_thinking(call.messages):
        # The API requires the thinking before calls; other models gave none.
        parameters.pop("reasoning_effort", None)
    return body | _thinking_options(call.model, parameters, limit)


def _continues_without_thinking(messages: Sequence[Message]) -> bool:
    """Whether the last tool results belong to a reply without signed thinking."""
    if messages[-1].role != "tool":
        return False
    replies = (each for each in reversed(messages) if each.role == "assistant")
    last_reply = next(replies, None)
    return last_reply is not None and not _signed_thinking(last_reply.reasoning)


def _unsupported(param: str, message: str) -> Invalid:
    return Invalid(message, param=param, code="unsupported_value")


def _stop_sequences(stop: Any) -> list[str]:
    sequences = [stop] if isinstance(stop, str) else list(stop)
    if any(not sequence.strip() for sequence in sequences):
        raise _unsupported(
            "stop", "this model does not support empty or blank stop sequences"
        )
    return sequences


def _service_tier(tier: str) -> str:
    match tier:
        case "auto" | "priority":
            return "auto"
        case "default":
            return "standard_only"
    raise _unsupported(
        "service_tier",
        f"this model does not support service_tier '{escape_and_truncate(tier)}': use "
        "auto, default or priority",
    )


def _tool_choice(parameters: Mapping[str, Any]) -> dict[str, Any]:
    choice = _choice(parameters.get("tool_choice"))
    if parameters.get("parallel_tool_calls") is False:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    return {"tool_choice": choice} if choice else {}


def _choice(choice: Any) -> dict[str, Any]:
    match choice:
        case None:
            return {}
        case "none" | "auto":
            return {"type": choice}
        case "required":
            return {"type": "any"}
        case {"type": "function", "function": {"name": str(name)}}:
            return {"type": "tool", "name": name}
    raise _unsupported(
        "tool_choice",
        "for this model, tool_choice must be none, auto, required or one function",
    )


def _thinking_options(
    model: str, parameters: Mapping[str, Any], limit: int | None
) -> dict[str, Any]:
    """Return the limit and the thinking options for a `reasoning_effort`.

    Models before 4.6 take a budget, which counts towards `max_tokens`: the limit is
    raised so that the reply keeps its own. Later ones refuse a budget and choose the
    amount themselves. With thinking the API accepts only temperature 1.
    """
    effort = _effort(parameters)
    if effort is None:
        return {"max_tokens": DEFAULT_MAX_TOKENS if limit is None else limit}
    if parameters.get("temperature", 1) != 1:
        raise _unsupported(
            "temperature",
            "with reasoning_effort this model supports only temperature 1",
        )
    if has_adaptive_thinking(model):
        return {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": EFFORTS.get(effort, effort)},
            "max_tokens": DEFAULT_THINKING_MAX_TOKENS if limit is None else limit,
        }
    budget = THINKING_BUDGETS[effort]
    reply = DEFAULT_MAX_TOKENS if limit is None else limit
    return {
        "thinking": {"type": "enabled", "budget_tokens": budget},
        "max_tokens": reply + budget,
    }


def _effort(parameters: Mapping[str, Any]) -> str | None:
    effort = parameters.get("reasoning_effort")
    if effort is None or effort == "none":
        return None
    if effort not in THINKING_BUDGETS:
        raise _unsupported(
            "reasoning_effort",
            f"reasoning_effort must be none or one of {', '.join(THINKING_BUDGETS)}",
        )
    return str(effort)


def has_adaptive_thinking(model: str) -> bool:
    """Return whether a model decides by itself how long to think.

    Names without a known version count as new models.
    """
    match = VERSION_IN_NAME.search(model)
    if match is None:
        return True
    return (int(match[1]), int(match[2] or 0)) >= FIRST_ADAPTIVE
