"""OpenAI's published schemas as JSON Schemas without additional properties.

Source: OpenAI's API reference (CreateChatCompletionResponse,
CreateChatCompletionStreamResponse, ErrorResponse, ListModelsResponse). The only added
fields are `reasoning_content`, the name that DeepSeek and others use, and `coulisse`.
"""

from typing import Any

from jsonschema import Draft202012Validator

COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
FINISH_REASONS = ["stop", "length", "tool_calls", "content_filter"]


def closed(*, required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "required": required.split(),
        "additionalProperties": False,
        "properties": properties,
    }


USAGE = closed(
    required="prompt_tokens completion_tokens total_tokens",
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    total_tokens=COUNT,
    prompt_tokens_details=closed(required="cached_tokens", cached_tokens=COUNT),
    completion_tokens_details=closed(
        required="reasoning_tokens", reasoning_tokens=COUNT
    ),
)
TOOL_CALL = closed(
    required="id type function",
    id={"type": "string", "minLength": 1},
    type={"const": "function"},
    function=closed(
        required="name arguments",
        name={"type": "string", "minLength": 1},
        arguments=TEXT,
    ),
)
HEAD: dict[str, Any] = {
    "coulisse": {"type": "object"},
    "id": {"type": "string", "pattern": "^chatcmpl-[0-9a-f]{32}$"},
    "created": {"type": "integer", "minimum": 1_700_000_000},
    "model": {"type": "string", "minLength": 1},
}

COMPLETION = closed(
    required="id object created model choices usage",
    **HEAD,
    object={"const": "chat.completion"},
    choices={
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": closed(
            required="index message logprobs finish_reason",
            index={"const": 0},
            logprobs={"type": "null"},
            finish_reason={"enum": FINISH_REASONS},
            message=closed(
                required="role content refusal",
                role={"const": "assistant"},
                content=TEXT_OR_NULL,
                refusal=TEXT_OR_NULL,
                reasoning_content=TEXT,
                tool_calls={"type": "array", "minItems": 1, "items": TOOL_CALL},
            ),
        ),
    },
    usage=USAGE,
)

DELTA = closed(
    required="",
    role={"const": "assistant"},
    content=TEXT_OR_NULL,
    refusal=TEXT_OR_NULL,
    reasoning_content=TEXT,
    tool_calls={
        "type": "array",
        "minItems": 1,
        "items": {
            "oneOf": [
                # The first delta of a call, and the others.
                {
                    **TOOL_CALL,
                    "required": ["index", *TOOL_CALL["required"]],
                    "properties": {"index": COUNT, **TOOL_CALL["properties"]},
                },
                closed(
                    required="index function",
                    index=COUNT,
                    function=closed(required="arguments", arguments=TEXT),
                ),
            ]
        },
    },
)
CHUNK = closed(
    required="id object created model choices",
    **HEAD,
    object={"const": "chat.completion.chunk"},
    choices={
        "type": "array",
        "maxItems": 1,
        "items": closed(
            required="index delta finish_reason logprobs",
            index={"const": 0},
            delta=DELTA,
            logprobs={"type": "null"},
            finish_reason={"enum": [*FINISH_REASONS, None]},
        ),
    },
    usage={"oneOf": [USAGE, {"type": "null"}]},
)

ERROR = closed(
    required="error",
    error=closed(
        required="message type param code",
        message={"type": "string", "minLength": 1},
        type={"type": "string", "minLength": 1},
        param={"type": ["string", "null"], "minLength": 1},
        code={"type": ["string", "null"], "minLength": 1},
    ),
)

MODEL = closed(
    required="id object created owned_by",
    id={"type": "string", "minLength": 1},
    object={"const": "model"},
    created=COUNT,
    owned_by=TEXT,
)
MODELS = closed(
    required="object data",
    object={"const": "list"},
    data={"type": "array", "items": MODEL},
)

_validators = {
    name: Draft202012Validator(schema)
    for name, schema in {
        "chunk": CHUNK,
        "completion": COMPLETION,
        "error": ERROR,
        "model": MODEL,
        "models": MODELS,
    }.items()
}


def check(kind: str, value: Any) -> Any:
    """Return `value`; fail unless it matches OpenAI's schema `kind`."""
    _validators[kind].validate(value)
    return value
