"""Messages and requests of the Anthropic wire."""

import pytest

from core.errors import Invalid
from core.messages import Message
from providers.wires.anthropic_body import (
    build_body,
)
from tests.providers.conftest import model_request

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS},
}
OLD = "claude-sonnet-4-5-20250929"
NEW = "claude-opus-4-7"
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def body(*messages: Message, model: str = "the-model", **fields):
    call = model_request(messages=messages or [Message("user", "Hi")], **fields)
    return build_body(call) | ({} if model == "the-model" else {"model": model})


def given(model: str = OLD, **parameters):
    call = model_request(parameters=parameters)
    return build_body(type(call)(model, call.messages, parameters=parameters))


def refused(*messages: Message, **fields) -> Invalid:
    with pytest.raises(Invalid) as caught:
        body(*messages, **fields)
    return caught.value


def text(words: str):
    return {"type": "text", "text": words}
