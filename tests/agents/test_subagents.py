"""Agents that call agents: fresh context, bounded depth, honest failures."""

import asyncio

import pytest

from agents import fallback_chain, loop, subagents
from agents.config import AgentConfig
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from agents.subagents import MAX_DEPTH, ResolvedAgent, Subagent
from core import trace
from core.events import HandoffStarted, TextDelta
from core.messages import Message
from providers import client

COACH = {"name": "coach", "provider": "p", "model": "m"}
CRITIC = {"name": "resume critic", "provider": "p", "model": "small", "seed": 7}


def answering(agent, models):
    async def find():
        return ResolvedAgent(agent, models)

    return find


def critic(fake, *, depth=1, open_tools=None, **fields) -> Subagent:
    async def none(agent):
        return []

    agent = AgentConfig.model_validate({**CRITIC, **fields})
    models = [fallback_chain.primary_model(agent, fake.provider("openai"))]
    return Subagent(
        agent.name,
        agent.purpose,
        answering(agent, models),
        open_tools or none,
        depth=depth,
        user="u",
    )


@pytest.fixture
def take(fake):
    """Return a function that runs the coach with these agents as tools."""

    async def take(*tools, record=None):
        coach = AgentConfig.model_validate(COACH)
        task = AgentRun(
            coach,
            FallbackChain(
                [fallback_chain.primary_model(coach, fake.provider("openai"))]
            ),
            [Message("system", "You coach."), Message("user", "my secret is 42")],
            {},
            own_tools=tools,
            record=[] if record is None else record,
        )
        try:
            return [event async for event in loop.run(task)]
        finally:
            await client.close()

    return take


def text(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_subagent_sees_only_its_preamble_and_the_message(take, fake):
    fake.call_tool("resume_critic", {"message": "Judge this."})
    fake.reply("Too long.")
    fake.reply("The critic finds it too long.")
    events = await take(critic(fake, preamble="You judge."))
    assert text(events) == "The critic finds it too long."
    assert [e.agent for e in events if isinstance(e, HandoffStarted)] == [
        "resume critic"
    ]
    asked = fake.bodies[1]
    assert [(m["role"], m["content"]) for m in asked["messages"]] == [
        ("system", "You judge."),
        ("user", "Judge this."),
    ]
    assert (asked["model"], asked["seed"]) == ("small", 7)
    assert "Too long." in str(fake.bodies[2]["messages"][-1])


@pytest.mark.parametrize(
    ("purpose", "expected"),
    [("Judges.", "Judges."), (None, "Invoke the 'resume critic' subagent.")],
)
def test_purpose_is_the_tool_description(fake, purpose, expected):
    tool = critic(fake, purpose=purpose)
    assert (tool.name, tool.target, tool.description) == (
        "resume_critic",
        "resume critic",
        expected,
    )


async def test_subagent_calls_are_nested_in_the_record(take, fake):
    record = []
    inner = critic(fake, name="inner")

    async def tools(agent):
        return [inner]

    fake.call_tool("outer", {"message": "a"})
    fake.call_tool("inner", {"message": "b"})
    fake.reply("deep")
    fake.reply("less deep")
    fake.reply("done")
    events = await take(critic(fake, name="outer", open_tools=tools), record=record)
    model, outer, last = record
    assert (outer.kind, outer.target, outer.result) == (
        "subagent",
        "outer",
        "less deep",
    )
    first, nested, second = outer.calls
    assert (first.agent, nested.target, second.agent) == ("outer", "inner", "outer")
    assert nested.calls[0].agent == "inner"
    assert (model.agent, last.agent) == ("coach", "coach")
    used = sum(call.usage.input_tokens for call in trace.iter_model_calls(record))
    assert events[-1].usage.input_tokens == used
    assert len(list(trace.iter_model_calls(record))) == 5


async def test_subagents_are_limited_to_depth_four(take, fake):
    def agent_at(depth):
        async def tools(agent):
            return [agent_at(depth + 1)]

        return critic(fake, depth=depth, open_tools=tools)

    for _ in range(MAX_DEPTH + 1):
        fake.call_tool("resume_critic", {"message": "on"})
    for _ in range(MAX_DEPTH + 1):
        fake.reply("back")
    assert text(await take(agent_at(1))) == "back"
    assert len(fake.requests) == 2 * (MAX_DEPTH + 1)
    expected = str(fake.bodies[MAX_DEPTH + 1]["messages"][-1])
    assert "at most 4 levels deep" in expected
    assert "answer without it" in expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "expected exactly one argument"),
        ({"message": 5}, "expected exactly one argument"),
        ({"message": "a", "more": 1}, "expected exactly one argument"),
        ({"message": " "}, "'message' is empty"),
        ({"message": "a" * 200_001}, "the maximum is 200000"),
    ],
)
async def test_wrong_arguments_return_an_error(take, fake, arguments, expected):
    fake.call_tool("resume_critic", arguments)
    fake.reply("Sorry.")
    assert text(await take(critic(fake))) == "Sorry."
    assert expected in str(fake.bodies[-1]["messages"][-1])
    assert len(fake.requests) == 2


async def test_failed_subagent_returns_an_error(take, fake):
    record = []
    fake.call_tool("resume_critic", {"message": "on"})
    fake.fail(400, "too much")
    fake.reply("The critic is ill.")
    assert text(await take(critic(fake), record=record)) == "The critic is ill."
    assert "too much" in record[1].error
    assert "too much" in record[1].calls[0].error


async def test_silent_subagent_returns_a_note(take, fake):
    fake.call_tool("resume_critic", {"message": "on"})
    fake.reply()
    fake.reply("The critic is silent.")
    assert text(await take(critic(fake))) == "The critic is silent."
    assert "returned no text" in str(fake.bodies[-1]["messages"][-1])


async def test_last_message_is_the_result(take, fake):
    async def tools(agent):
        return [critic(fake, name="inner")]

    fake.call_tool("outer", {"message": "a"})
    fake.reply("Let me ask.", tool_calls=[("inner", {"message": "b"})])
    fake.reply("inner word")
    fake.reply("last word")
    fake.reply("done")
    record = []
    await take(critic(fake, name="outer", open_tools=tools), record=record)
    assert record[1].result == "last word"


async def test_truncated_subagent_answer_says_so(take, fake):
    fake.call_tool("resume_critic", {"message": "on"})
    fake.reply("Too", finish="length")
    fake.reply("Hm.")
    await take(critic(fake))
    assert "truncated:" in str(fake.bodies[-1]["messages"][-1])


async def test_subagents_run_in_parallel(take, fake):
    names = ["a", "b", "c"]
    fake.reply(tool_calls=[(name, {"message": "on"}) for name in names])
    hung = [fake.hang("headers") for _ in names]
    task = asyncio.create_task(take(*(critic(fake, name=name) for name in names)))
    await fake.until(lambda: len(fake.requests) == 1 + len(hung))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fake.until(lambda: all(request.aborted for request in fake.requests[1:]))


def test_maximum_depth_matches_the_reference():
    assert subagents.MAX_DEPTH == 4


async def test_refusing_subagent_returns_its_reason(take, fake):
    fake.call_tool("resume_critic", {"message": "Judge this."})
    fake.reply(refusal="I will not.")
    fake.reply("It will not.")
    await take(critic(fake))
    assert "I will not." in str(fake.bodies[2]["messages"][-1])
