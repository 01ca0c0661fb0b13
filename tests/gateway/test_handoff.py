"""Agents that call agents, seen from the client."""

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
def test_a_stream_announces_who_is_asked(server, user):
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
def test_with_usage_the_announcement_has_none_yet(server, user):
    request = body(user, "hi", agent="coach", stream_options={"include_usage": True})
    read = frames(server, request)
    (chunk,) = [chunk for chunk in read if "agent" in chunk]
    assert chunk["usage"] is None
    # Of all three calls.
    assert read[-2]["usage"]["completion_tokens"] == 3 * 3


@pytest.mark.usefixtures("handed_over")
def test_the_official_client_reads_over_it(server, client, user):
    stream = client.chat.completions.create(
        **body(user, "hi", agent="coach", stream=True)
    )
    said = [c.choices[0].delta.content or "" for c in stream if c.choices]
    assert "".join(said) == "One moment.\n\nThe critic finds it too long."


@pytest.mark.usefixtures("handed_over")
def test_the_transcript_is_the_callers(server, client, user):
    ask(client, user, "Here is my resume.", agent="coach")
    assert stored(user) == [
        ("user", "Here is my resume.", ""),
        ("assistant", "One moment.\n\nThe critic finds it too long.", "stop"),
    ]


def test_a_long_silence_is_broken_by_heartbeats(server, fake, user, monkeypatch):
    monkeypatch.setattr(tool_execution, "HEARTBEAT_SECONDS", 0.02)
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.hang("headers")
    fake.reply("Late.")
    with calls.calling(server, body(user, "hi", agent="coach", stream=True)) as caller:
        caller.hear("handoff_started")
        caller.hear(": heartbeat\n\n")
        fake.release()
        caller.hear("[DONE]")
    assert b"Late." in caller.heard


def test_a_client_that_leaves_ends_the_subagent_too(server, fake, user):
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.hang("headers")
    with calls.calling(server, body(user, "hi", agent="coach", stream=True)) as caller:
        caller.hear("handoff_started")
        fake.wait(lambda: len(fake.requests) == 2)
    fake.wait(lambda: fake.requests[1].aborted)
    assert len(fake.requests) == 2


def test_a_subagent_works_for_the_same_user(server, client, fake, user):
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


def test_a_clients_tool_is_not_the_subagents(server, client, fake, user):
    look = {"type": "function", "function": {"name": "look", "parameters": {}}}
    fake.call_tool("resume_critic", {"message": "Judge."})
    fake.call_tool("look", {})
    fake.reply("I cannot look.")
    fake.reply("It cannot look.")
    reply = ask(client, user, "hi", agent="coach", tools=[look])
    assert reply.choices[0].message.content == "It cannot look."
    assert "there is no tool called 'look'" in str(fake.bodies[2]["messages"][-1])


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_may_not_bring_a_tool_of_that_name(server, fake, user, stream):
    tool = {"type": "function", "function": {"name": "resume_critic", "parameters": {}}}
    request = body(user, "hi", agent="coach", tools=[tool], stream=stream)
    complaint = calls.refused(server, request)
    assert "rename yours" in complaint["message"]
    assert complaint["param"] == "tools"
    assert fake.requests == []
