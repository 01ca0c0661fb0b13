"""Messages, chunks and requests of the OpenAI wire."""

from core.messages import Message, ToolCall
from providers.registry import KINDS
from tests.providers.conftest import collect_events, model_request

TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
CALLED = Message("assistant", tool_calls=(ToolCall("call_1", "add", '{"a":1}'),))


def chunk(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def tools(*pieces, finish=None):
    return chunk(finish, tool_calls=list(pieces))


def piece(arguments="", name=None, **fields):
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function, **fields}


async def sent(fake, kind="openai", provider=None, **fields):
    await collect_events(provider or fake.provider(kind), model_request(**fields))
    return fake.requests[-1].body


def official(kind: str, **fields):
    """Return the request body for a kind at its default address."""
    return KINDS[kind].wire.body(model_request(**fields))
