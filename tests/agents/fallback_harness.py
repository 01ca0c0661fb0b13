"""Helpers of the tests of fallbacks."""

from pathlib import Path

import pytest

from agents import fallback_chain, loop
from agents.config import AGENTS, AgentConfig
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from config.sections import Config
from core import trace
from core.errors import CoulisseError
from core.events import (
    TextDelta,
)
from core.messages import Message
from providers import client
from providers.config import PROVIDERS

EITHER = pytest.mark.parametrize("stream", [True, False])


class Stage:
    """An agent on a first provider, with fallbacks on the others."""

    def __init__(
        self,
        first,
        spare,
        last,
        *,
        kinds=("openai", "openai", "openai"),
        retries=0,
        **settings,
    ):
        fakes = dict(zip(("first", "spare", "last"), (first, spare, last), strict=True))
        self.record = []
        self._providers = {
            name: fake.provider(kind, retries=retries, **settings)
            for (name, fake), kind in zip(fakes.items(), kinds, strict=True)
        }

    def task(
        self, *tools, others=(), requested=None, messages=None, fallbacks=None, **more
    ):
        fields = {
            key: more.pop(key) for key in [*more] if key in AgentConfig.model_fields
        }
        if fallbacks is None:
            fallbacks = [{"provider": "spare", "model": "m2"}]
        agent = AgentConfig.model_validate(
            {
                "name": "a",
                "provider": "first",
                "model": "m1",
                "fallbacks": fallbacks,
                **fields,
            }
        )
        named = {agent.name: agent, **{each.name: each for each in others}}
        config = Config(
            Path("coulisse.yaml"),
            {PROVIDERS.key: self._providers, AGENTS.key: named},
        )
        return AgentRun(
            agent,
            FallbackChain(fallback_chain.models_for(config, agent)),
            messages or [Message("user", "hi")],
            requested or {},
            own_tools=tools,
            record=self.record,
            **more,
        )

    async def take(self, *tools, **more):
        try:
            return [event async for event in loop.run(self.task(*tools, **more))]
        finally:
            await client.close()

    async def fails(self, *tools, **more) -> CoulisseError:
        """Take a turn that fails; return its error."""
        with pytest.raises(CoulisseError) as caught:
            await self.take(*tools, **more)
        return caught.value

    @property
    def calls(self):
        """The models that were called, and whether each call succeeded."""
        calls = trace.iter_model_calls(self.record)
        return [(f"{c.provider}/{c.model}", c.error is None) for c in calls]


def text(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def agent(name, **fields):
    return AgentConfig.model_validate({"name": name, "model": f"{name}-m", **fields})


TWO = [{"provider": "spare", "model": "m2"}, {"provider": "last", "model": "m3"}]
