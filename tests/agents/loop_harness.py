"""Helpers of the tests of the agent loop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from core.errors import CoulisseError
from core.events import (
    TextDelta,
)


@dataclass
class Tool:
    """A tool that does what a test says."""

    name: str
    do: Callable[[Mapping[str, Any]], Any] = lambda arguments: "done"
    description: str = "A tool."
    kind: str = "memory"
    target: str = ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"type": "object"}

    async def call(self, arguments: Mapping[str, Any], record) -> str:
        result = self.do(arguments)
        return await result if asyncio.iscoroutine(result) else result


LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}


BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])


EITHER = pytest.mark.parametrize("stream", [True, False])


def text(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def results(fake) -> str:
    """Return the last message of the last request, on either wire."""
    return str(fake.bodies[-1]["messages"][-1])


def refuse(arguments):
    raise CoulisseError("the shop is closed")
