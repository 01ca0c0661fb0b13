import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from core.events import Event
from core.messages import Message
from core.trace import Attempt
from providers import client
from providers.config import ProviderConfig
from providers.model_request import ModelRequest
from providers.resilience import backoff
from testing.scripted_provider import FakeProvider


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    with FakeProvider() as fake:
        yield fake


@pytest.fixture(autouse=True)
async def _sessions_closed() -> AsyncIterator[None]:
    yield
    await client.close()


@pytest.fixture
async def go_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Have seconds go by on the event loop, which nobody waits for."""
    loop, gone_by = asyncio.get_running_loop(), 0.0
    time = loop.time

    def go_by(seconds: float) -> None:
        nonlocal gone_by
        gone_by += seconds

    monkeypatch.setattr(loop, "time", lambda: time() + gone_by)
    return go_by


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits before retries, which nobody waits for."""
    seen: list[float] = []

    async def pause(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr(backoff, "sleep", pause)
    return seen


def asking(**fields) -> ModelRequest:
    fields.setdefault("messages", [Message("user", "Hi")])
    return ModelRequest("the-model", **fields)


async def said(
    provider: ProviderConfig,
    call: ModelRequest | None = None,
    name: str = "acme",
    *,
    attempts: list[Attempt] | None = None,
) -> list[Event]:
    events = client.run(name, provider, call or asking(), attempts)
    return [event async for event in events]
