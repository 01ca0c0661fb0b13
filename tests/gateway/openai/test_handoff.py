"""Agents that call other agents, as clients see them."""

import pytest

from agents import tool_execution
from tests.gateway import calls
from tests.gateway.calls import ask, body, frames, post, stored

HOUSE = """
providers:
  openai: {api_key: sk-openai-secret, base_url: "{fake}/v1", retries: 0}
agents:
  - name: coach
    provider: openai
    model: gpt-test
    preamble: You coach.
    subagents: [resume critic]
  - name: resume critic
    provider: openai
    model: gpt-small
    purpose: Judges a resume.
    preamble: You judge.
    memory_tools: true
"""


@pytest.fixture
def server(running, configure):
    configure(HOUSE)
    return running


@pytest.fixture
def handed_over(fake):
    fake.reply("One moment.", tool_calls=[("resume_critic", {"message": "Judge."})])
    fake.reply("Too long.")
    fake.reply("The critic finds it too long.")


@pytest.mark.usefixtures("handed_over")
def test_stream_announces_the_called_agent(server, user):
    response = post(server, body(user, "hi", agent="coach", stream=True))
    blocks = response.content.decode().split("\n\n")
    (event,) = [block for block in blocks if block.startswith("event:")]
    name, data = event.split("\n")
    assert name == "event: handoff_started"
    (chunk,) = calls.read_frames(f"{event}\n\n".encode())
    assert data.startswith("data: ")
    assert chunk["agent"] == "resume critic"
    assert chunk["choices"][0]["delta"] == {}
    place = blocks.index(event)
    assert "One moment." in "".join(blocks[:place])
    assert "The critic finds" in "".join(blocks[place:])
    assert "Too long." not in response.text


@pytest.mark.usefixtures("handed_over")
def test_announcement_has_no_usage(server, user):
    request = body(user, "hi", agent="coach", stream_options={"include_usage": True})
    read = frames(server, request)
    (chunk,) = [chunk for chunk in read if "agent" in chunk]
    assert chunk["usage"] is None
    # The sum of all three calls.
    assert read[-2]["usage"]["completion_tokens"] == 3 * 3


@pytest.mark.usefixtures("handed_over")
def test_official_client_ignores_the_announcement(server, client, user):
    stream = client.chat.completions.create(
        **body(user, "hi", agent="coach", stream=True)
    )
    message = [c.choices[0].delta.content or "" for c in stream if c.choices]
    assert "".join(message) == "One moment.\n\nThe critic finds it too long."


@pytest.mark.usefixtures("handed_over")
def test_transcript_holds_only_the_callers_messages(server, client, user):
    ask(client, user, "Here is my resume.", agent="coach")
    assert stored(user) == [
        ("user", "Here is my resume.", ""),
        ("assistant", "One moment.\n\nThe critic finds it too long.", "stop"),
    ]


def test_heartbeats_are_sent_while_a_subagent_works(server, fake, user, monkeypatch):
    monkeypatch.setattr(tool_execution, "HEARTBEAT_SECONDS", 0.02)
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.hang("headers")
    fake.reply("Late.")
    with calls.open_connection(
        server, body(user, "hi", agent="coach", stream=True)
    ) as caller:
        caller.read_until("handoff_started")
        caller.read_until(": heartbeat\n\n")
        fake.release()
        caller.read_until("[DONE]")
    assert b"Late." in caller.received


def test_client_disconnect_stops_the_subagent(server, fake, user):
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.hang("headers")
    with calls.open_connection(
        server, body(user, "hi", agent="coach", stream=True)
    ) as caller:
        caller.read_until("handoff_started")
        fake.wait(lambda: len(fake.requests) == 2)
    fake.wait(lambda: fake.requests[1].aborted)
    assert len(fake.requests) == 2


def test_subagent_shares_the_users_memory(server, client, fake, user):
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.call_tool("save_memory", {"content": "The user hates long texts."})
    fake.reply("Saved.")
    fake.reply("Done.")
    ask(client, user, "Judge it.", agent="coach")
    fake.call_tool("resume_critic", {"message": "What do you know?"})
    fake.call_tool("search_memory", {"query": "long texts"})
    fake.reply("I know.")
    fake.reply("It knows.")
    ask(client, user, "Judge it again.", agent="coach")
    assert "hates long texts" in str(fake.bodies[6]["messages"][-1])


def test_client_tool_is_not_offered_to_subagents(server, client, fake, user):
    look = {"type": "function", "function": {"name": "look", "parameters": {}}}
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.call_tool("look", {})
    fake.reply("I cannot look.")
    fake.reply("It cannot look.")
    reply = ask(client, user, "hi", agent="coach", tools=[look])
    assert reply.choices[0].message.content == "It cannot look."
    assert "there is no tool called 'look'" in str(fake.bodies[2]["messages"][-1])


@pytest.mark.parametrize("stream", [True, False])
def test_client_tool_named_like_a_subagent_is_refused(server, fake, user, stream):
    tool = {"type": "function", "function": {"name": "resume_critic", "parameters": {}}}
    request = body(user, "hi", agent="coach", tools=[tool], stream=stream)
    complaint = calls.refused(server, request)
    assert "rename it" in complaint["message"]
    assert complaint["param"] == "tools"
    assert fake.requests == []
