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
async def skip_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that advances the clock of the event loop."""
    loop, skipped = asyncio.get_running_loop(), 0.0
    time = loop.time

    def skip_seconds(seconds: float) -> None:
        nonlocal skipped
        skipped += seconds

    monkeypatch.setattr(loop, "time", lambda: time() + skipped)
    return skip_seconds


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before retries, which are skipped."""
    seen: list[float] = []

    async def pause(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr(backoff, "sleep", pause)
    return seen


def model_request(**fields) -> ModelRequest:
    fields.setdefault("messages", [Message("user", "Hi")])
    return ModelRequest("the-model", **fields)


async def collect_events(
    provider: ProviderConfig,
    call: ModelRequest | None = None,
    name: str = "acme",
    *,
    attempts: list[Attempt] | None = None,
) -> list[Event]:
    events = client.run(name, provider, call or model_request(), attempts)
    return [event async for event in events]
