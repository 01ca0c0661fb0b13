"""The history of calls of the client's tools, on both wires."""

import json
from typing import Any

import pytest

from core.events import Usage
from memory.models import Thread
from tests.gateway.calls import (
    body,
    choices,
    frames,
    plain,
    post,
    prompt,
    refused,
    stored,
    text_of,
    user_message,
)

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
EITHER = pytest.mark.parametrize("stream", [True, False])
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object"}},
}
LOOK = {"type": "function", "function": {"name": "look"}}


def sent_messages(request: Any) -> list[str]:
    """Return the messages sent to a provider, without system messages."""
    return [text for role, text in prompt(request) if role != "system"]


def replied(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def calls_in(reply: Any, *, stream: bool) -> tuple[list[dict], str]:
    """Return the complete tool calls of a reply, and its finish reason."""
    if not stream:
        (choice,) = reply.json()["choices"]
        return choice["message"]["tool_calls"], choice["finish_reason"]
    calls: dict[int, dict] = {}
    for choice in choices(reply):
        for piece in choice["delta"].get("tool_calls", ()):
            call = calls.setdefault(piece["index"], piece)
            if call is not piece:
                more = piece["function"]["arguments"]
                call["function"]["arguments"] += more
    whole = [{k: v for k, v in call.items() if k != "index"} for call in calls.values()]
    return whole, choices(reply)[-1]["finish_reason"]


def call_tools(server, fake, user, agent, *, stream=False, texts=(), tools=None):
    """Script a reply that calls tools; return the calls and the messages so far."""
    fake.reply(*texts, tool_calls=tools or [("add", {"a": 1, "b": 2})])
    request = body(user, "what is 1+2?", agent=agent, tools=[TOOL, LOOK])
    reply = frames(server, request) if stream else post(server, request)
    calls, reason = calls_in(reply, stream=stream)
    assert reason == "tool_calls"
    content = "".join(texts) or None
    answer = {"role": "assistant", "content": content, "tool_calls": calls}
    return calls, [user_message("what is 1+2?"), answer]


def results(calls: list[dict], *contents: str) -> list[dict]:
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": content}
        for call, content in zip(calls, contents, strict=True)
    ]


def exchange(request: Any) -> list[tuple]:
    """Return the conversation sent to a provider, with calls and results."""
    kinds: list[tuple] = []
    for message in request.body["messages"]:
        if message["role"] == "system":
            continue
        if isinstance(message["content"], list):
            kinds += [_block(message["role"], block) for block in message["content"]]
            continue
        if message["role"] == "tool":
            kinds.append(("result", message["tool_call_id"], message["content"]))
            continue
        if message["content"]:
            kinds.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            function = call["function"]
            kinds.append(("call", call["id"], json.loads(function["arguments"])))
    return kinds


def _block(role: str, block: dict) -> tuple:
    match block["type"]:
        case "tool_use":
            return ("call", block["id"], block["input"])
        case "tool_result":
            return ("result", block["tool_use_id"], plain(block.get("content")))
    return (role, block["text"])


@BOTH
@EITHER
@pytest.mark.parametrize("resent", [True, False], ids=["all resent", "results only"])
def test_client_tool_call_round_trips(server, fake, user, agent, stream, resent):
    calls, before = call_tools(server, fake, user, agent, stream=stream)
    assert calls[0]["function"] == {"name": "add", "arguments": '{"a":1,"b":2}'}
    assert stored(user)[-1] == ("assistant", "", "tool_calls")
    fake.reply("It is 3.")
    messages = [*(before if resent else []), *results(calls, "3")]
    request = body(user, agent=agent, tools=[TOOL, LOOK], messages=messages)
    reply = frames(server, request) if stream else post(server, request)
    error = (
        text_of(reply) if stream else reply.json()["choices"][0]["message"]["content"]
    )
    assert error == "It is 3."
    (call,) = calls
    assert exchange(fake.requests[-1]) == [
        ("user", "what is 1+2?"),
        ("call", call["id"], {"a": 1, "b": 2}),
        ("result", call["id"], "3"),
    ]
    assert stored(user) == [
        ("user", "what is 1+2?", ""),
        ("assistant", "", "tool_calls"),
        ("tool", "3", ""),
        ("assistant", "It is 3.", "stop"),
    ]
    post(server, body(user, "thanks", agent=agent))
    assert exchange(fake.requests[-1])[1:] == [
        ("call", call["id"], {"a": 1, "b": 2}),
        ("result", call["id"], "3"),
        ("assistant", "It is 3."),
        ("user", "thanks"),
    ]


@BOTH
def test_parallel_calls_are_answered_together(server, fake, user, agent):
    tools = [("add", {"a": 1}), ("look", {})]
    calls, _ = call_tools(server, fake, user, agent, texts=["Let me see."], tools=tools)
    assert [call["function"]["name"] for call in calls] == ["add", "look"]
    answers = results(calls, "3", "a cat")
    post(server, body(user, agent=agent, tools=[TOOL, LOOK], messages=answers[::-1]))
    one, two = (call["id"] for call in calls)
    assert exchange(fake.requests[-1]) == [
        ("user", "what is 1+2?"),
        ("assistant", "Let me see."),
        ("call", one, {"a": 1}),
        ("call", two, {}),
        ("result", one, "3"),
        ("result", two, "a cat"),
    ]


@BOTH
def test_results_may_come_with_a_question(server, fake, user, agent):
    calls, _ = call_tools(server, fake, user, agent)
    messages = [*results(calls, "3"), user_message("and double it")]
    post(server, body(user, agent=agent, tools=[TOOL], messages=messages))
    assert exchange(fake.requests[-1])[-2:] == [
        ("result", calls[0]["id"], "3"),
        ("user", "and double it"),
    ]


@BOTH
def test_tool_loop_may_have_several_rounds(server, fake, user, agent):
    calls, sent = call_tools(server, fake, user, agent)
    for number in range(3):
        sent += results(calls, str(number))
        fake.reply(tool_calls=[("add", {"round": number})])
        reply = post(server, body(user, agent=agent, tools=[TOOL], messages=sent))
        calls, _ = calls_in(reply, stream=False)
        sent.append({"role": "assistant", "content": None, "tool_calls": calls})
    sent += results(calls, "done")
    post(server, body(user, agent=agent, tools=[TOOL], messages=sent))
    kinds = [kind for kind, *_ in exchange(fake.requests[-1])]
    assert kinds == ["user", *("call", "result") * 4]


@BOTH
def test_reasoning_is_sent_back_with_its_call(server, fake, user, agent):
    fake.reply(reasoning=["hm"], tool_calls=[("add", {})])
    request = body(user, agent=agent, tools=[TOOL])
    calls, _ = calls_in(post(server, request), stream=False)
    messages = results(calls, "3")
    post(server, body(user, agent=agent, tools=[TOOL], messages=messages))
    if agent == "claude":
        turn = fake.bodies[-1]["messages"][1]["content"]
        assert turn[0] == {
            "type": "thinking",
            "thinking": "hm",
            "signature": "signed",
        }
    else:
        assert "hm" not in json.dumps(fake.bodies[-1])


@BOTH
def test_unrequested_result_is_refused(server, fake, user, agent):
    orphan = {"role": "tool", "tool_call_id": "call_nowhere", "content": "3"}
    for messages in ([orphan], [user_message("hi"), orphan]):
        error = refused(server, body(user, agent=agent, messages=messages))
        assert error["param"] == "messages"
        assert "call_nowhere" in error["message"]
    assert fake.requests == []
    assert stored(user) == []


def test_result_of_another_users_call_is_refused(server, fake, user):
    calls, _ = call_tools(server, fake, user, "assistant")
    stranger = body(f"{user}-2", messages=results(calls, "3"))
    assert refused(server, stranger)["message"]


@BOTH
def test_unanswered_call_does_not_break_the_next_turn(server, fake, user, agent):
    call_tools(server, fake, user, agent, texts=["Let me see."])
    call_tools(server, fake, f"{user}-silent", agent)
    post(server, body(user, "never mind", agent=agent))
    assert exchange(fake.requests[-1]) == [
        ("user", "what is 1+2?"),
        ("assistant", "Let me see."),
        ("user", "never mind"),
    ]
    post(server, body(f"{user}-silent", "never mind", agent=agent))
    assert exchange(fake.requests[-1]) == [
        ("user", "what is 1+2?"),
        ("user", "never mind"),
    ]


@BOTH
def test_one_of_two_calls_may_stay_unanswered(server, fake, user, agent):
    calls, _ = call_tools(server, fake, user, agent, tools=[("add", {}), ("look", {})])
    messages = results(calls[1:], "a cat")
    post(server, body(user, agent=agent, tools=[LOOK], messages=messages))
    two = calls[1]["id"]
    assert exchange(fake.requests[-1])[1:] == [
        ("call", two, {}),
        ("result", two, "a cat"),
    ]


@BOTH
def test_exchange_in_progress_is_never_truncated(server, fake, user, agent, configure):
    configure(
        "providers: {openai: {base_url: '{fake}/v1'}, "
        "anthropic: {base_url: '{fake}'}}\n"
        "agents:\n"
        "  - {name: assistant, provider: openai, model: m, context_tokens: 256}\n"
        "  - {name: claude, provider: anthropic, model: m, context_tokens: 256}"
    )
    calls, _ = call_tools(server, fake, user, agent)
    messages = results(calls, "r" * 5000)
    post(server, body(user, agent=agent, tools=[TOOL], messages=messages))
    assert [kind for kind, *_ in exchange(fake.requests[-1])] == [
        "user",
        "call",
        "result",
    ]


@BOTH
def test_tool_loop_may_be_incognito(server, fake, user, agent):
    fake.reply(tool_calls=[("add", {})])
    hidden = {"metadata": {"memory": "incognito"}, "tools": [TOOL]}
    reply = post(server, body(user, agent=agent, **hidden))
    calls, _ = calls_in(reply, stream=False)
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    messages = [user_message("hi"), answer, *results(calls, "3")]
    post(server, body(user, agent=agent, messages=messages, **hidden))
    assert [kind for kind, *_ in exchange(fake.requests[-1])] == [
        "user",
        "call",
        "result",
    ]
    assert not Thread.objects.filter(name=user).exists()
    assert stored(user) == []


def test_answered_audio_is_not_sent_again(server, fake, user):
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    heard = {"role": "user", "content": [{"type": "text", "text": "listen"}, sound]}
    post(server, {"model": "assistant", "safety_identifier": user, "messages": [heard]})
    answer = post(server, body(user, agent="claude"))
    assert answer.status_code == 200
    assert "input_audio" not in str(fake.requests[-1].body)


def test_reasoning_tokens_do_not_displace_history(server, fake, user):
    fake.reply("Yes.", reasoning=["hm"], usage=Usage(10, 17_000))
    post(server, body(user, "first", agent="claude"))
    post(server, body(user, "second", agent="claude"))
    assert [text for _, text in prompt(fake.requests[-1])][-3:] == [
        "first",
        "Yes.",
        "second",
    ]


def test_tool_loop_of_another_client_can_continue(server, fake, user):
    function = {"name": "look", "arguments": "{}"}
    call = {"id": "call_1", "type": "function", "function": function}
    messages = [
        user_message("what is there?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
    ]
    fake.reply("A cat.")
    request = {"model": "assistant", "safety_identifier": user, "messages": messages}
    assert post(server, request).status_code == 200
    roles = [role for role, _, _ in stored(user)]
    assert roles == ["user", "assistant", "tool", "assistant"]
