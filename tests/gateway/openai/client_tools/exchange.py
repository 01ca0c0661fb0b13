"""Requests with tools of the client, and what is sent and received."""

import pytest

from tests.gateway.calls import (
    body,
    plain,
)

HOUSE = """
providers:
  openai: {api_key: sk-openai-secret, base_url: "{fake}/v1", retries: 0}
  anthropic: {api_key: sk-anthropic-secret, base_url: "{fake}", retries: 0}
agents:
  - name: helper
    provider: openai
    model: gpt-test
    preamble: You help.
    skills: [packing]
    memory_tools: true
  - name: claude helper
    provider: anthropic
    model: claude-test
    preamble: You help.
    skills: [packing]
    memory_tools: true
  - name: plain
    provider: openai
    model: gpt-test
  - name: boss
    provider: openai
    model: gpt-test
    subagents: [plain]
"""


OWN = [
    "search_memory",
    "save_memory",
    "update_memory",
    "forget_memory",
    "packing",
    "skill_file",
]


HELPERS = pytest.mark.parametrize("agent", ["helper", "claude helper"])


EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


RESENT = pytest.mark.parametrize("resent", [False, True], ids=["new only", "resent"])


PLACE = {"type": "string"}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look out of the window.",
        "parameters": {"type": "object", "properties": {"city": PLACE}},
    },
}


CLOCK = {"type": "function", "function": {"name": "clock"}}


TOOLS = [WEATHER, CLOCK]


LISBON = ("weather", {"city": "Lisbon"})


PACKING = ("packing", {})


def turn(client, user, messages, *, stream=False, **more):
    """Run a turn with the official client; return the message and finish reason."""
    request = body(user, messages=messages, **more)
    request.setdefault("tools", TOOLS)
    if not stream:
        choice = client.chat.completions.create(**request).choices[0]
        return choice.message, choice.finish_reason
    with client.chat.completions.stream(**request) as events:
        for _ in events:
            pass
        choice = events.get_final_completion().choices[0]
    return choice.message, choice.finish_reason


def result(call, content="rain"):
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def sent_back(message):
    """Return the assistant's message in the form clients keep in their history."""
    return message.model_dump(exclude_unset=True, exclude={"parsed"})


def tool_names(request) -> list[str]:
    """Return the tools in a provider request, on either wire."""
    tools = request.body.get("tools", [])
    return [tool.get("function", tool)["name"] for tool in tools]


def exchanges(request) -> list[tuple]:
    """Return the calls and results in a provider request, on either wire, in order.

    Calls are (id, name), results (id, text).
    """
    found = []
    for message in request.body["messages"]:
        for call in message.get("tool_calls") or ():
            found.append((call["id"], call["function"]["name"]))
        if message["role"] == "tool":
            found.append((message["tool_call_id"], message["content"]))
        parts = message["content"] if isinstance(message["content"], list) else ()
        for part in parts:
            if part["type"] == "tool_use":
                found.append((part["id"], part["name"]))
            if part["type"] == "tool_result":
                found.append((part["tool_use_id"], plain(part.get("content"))))
    return found


def id_of(agent, number):
    """Return the fake's id of the n-th call of a reply."""
    return f"toolu_{number}" if "claude" in agent else f"call_{number}"
