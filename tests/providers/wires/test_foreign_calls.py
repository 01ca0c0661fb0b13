"""Tool calls of one model in the prompt of another."""

import pytest

from core.messages import Message, Reasoning, ToolCall
from providers import registry
from providers.model_request import ModelRequest

OLD, NEW = "claude-sonnet-4-5", "claude-sonnet-4-6"


def exchange(*, call_id="call_1", reasoning=()):
    call = ToolCall(call_id, "add", "{}")
    return [
        Message("user", "hi"),
        Message("assistant", None, tool_calls=(call,), reasoning=reasoning),
        Message("tool", "2", tool_call_id=call_id),
    ]


def body(kind, model, messages, **parameters):
    wire = registry.KINDS[kind].wire
    return wire.body(ModelRequest(model, messages, parameters=parameters))


SIGNED = (Reasoning("Hm.", "signed"),)


@pytest.mark.parametrize(
    ("model", "reasoning", "thinks"),
    [(OLD, (), False), (OLD, SIGNED, True), (NEW, (), True)],
)
def test_claude_does_not_think_after_foreign_calls(model, reasoning, thinks):
    messages = exchange(reasoning=reasoning)
    sent = body("anthropic", model, messages, reasoning_effort="low")
    assert ("thinking" in sent) is thinks


def test_claude_thinks_about_the_next_question():
    messages = [*exchange(), Message("assistant", "Two."), Message("user", "And?")]
    assert "thinking" in body("anthropic", OLD, messages, reasoning_effort="low")


def test_claude_receives_valid_tool_call_ids():
    sent = body("anthropic", OLD, exchange(call_id="functions.add:0"))
    call, result = (message["content"][0] for message in sent["messages"][1:])
    assert call["id"] == result["tool_use_id"] == "functions_add_0"


@pytest.mark.parametrize(
    ("model", "reasoning", "signature"),
    [
        ("gemini-2.5-pro", (), None),
        ("gemini-2.5-pro", SIGNED, "signed"),
        ("gemini-3-pro-preview", (), "skip_thought_signature_validator"),
        ("models/gemini-3.5-flash", SIGNED, "signed"),
        ("gemini-10", (), "skip_thought_signature_validator"),
    ],
)
def test_gemini_receives_a_signature_for_foreign_calls(model, reasoning, signature):
    sent = body("gemini", model, exchange(reasoning=reasoning))
    (call,) = sent["messages"][1]["tool_calls"]
    google = call.get("extra_content", {}).get("google", {})
    assert google.get("thought_signature") == signature
