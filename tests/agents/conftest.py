"""Fixtures of the tests of agents."""

import pytest

from agents import fallback_chain, loop
from agents.config import AgentConfig
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from core.messages import Message
from providers import client
from testing.scripted_provider import FakeProvider
from tests.agents.fallback_harness import Stage


@pytest.fixture
def take(fake):
    """Return a function that takes a turn and returns its events."""

    async def take(
        *tools,
        kind="openai",
        stream=True,
        client_tools=(),
        choice=None,
        final_text_only=False,
        record=None,
        **agent,
    ):
        fields = {"name": "a", "provider": "p", "model": "m", **agent}
        config = AgentConfig.model_validate(fields)
        task = AgentRun(
            config,
            FallbackChain([fallback_chain.primary_model(config, fake.provider(kind))]),
            [Message("user", "hi")],
            {} if choice is None else {"tool_choice": choice},
            client_tools=client_tools,
            own_tools=tools,
            stream=stream,
            final_text_only=final_text_only,
            record=[] if record is None else record,
        )
        try:
            return [event async for event in loop.run(task)]
        finally:
            await client.close()

    return take


@pytest.fixture
def spare():
    """The provider of the first fallback."""
    with FakeProvider() as provider:
        yield provider


@pytest.fixture
def last():
    """The provider of the second fallback."""
    with FakeProvider() as provider:
        yield provider


@pytest.fixture
def stage(fake, spare, last):
    return Stage(fake, spare, last)
