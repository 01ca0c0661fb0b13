"""Timeouts of calls, over real HTTP on both wires."""

import asyncio

import pytest

from core.errors import Unavailable
from core.events import TextDelta, TurnFinished
from providers import client
from providers.config import ProviderConfig
from providers.errors import (
    TimedOut,
)
from tests.providers.conftest import collect_events, model_request

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
PLACES = pytest.mark.parametrize("place", ["headers", "first_token", "mid_stream"])


@KINDS
@pytest.mark.parametrize("place", ["headers", "first_token"])
async def test_missing_first_token_times_out(fake, skip_seconds, kind: str, place):
    fake.hang(place)
    timeouts = {"first_token_seconds": 100.5, "total_seconds": 1000}
    call = asyncio.create_task(collect_events(fake.provider(kind, timeouts=timeouts)))
    await fake.until(lambda: fake.requests)
    skip_seconds(101)
    with pytest.raises(TimedOut, match=r"longer than 100\.5 s to begin") as caught:
        await call
    assert (caught.value.wait, caught.value.seconds) == ("first_token", 100.5)
    assert caught.value.provider == "acme"
    await fake.until(lambda: fake.requests[0].aborted)
    assert len(fake.requests) == 1


@KINDS
async def test_stalled_stream_times_out(fake, skip_seconds, kind: str):
    # The pause has us wait for the first token before we wait for the next.
    fake.reply("Hello", " there", hang="mid_stream", pause_seconds=0.01)
    timeouts = {"idle_seconds": 50, "first_token_seconds": 100, "total_seconds": 1000}
    events = client.run("acme", fake.provider(kind, timeouts=timeouts), model_request())
    assert await anext(events) == TextDelta("Hello")
    call = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    skip_seconds(50)
    with pytest.raises(TimedOut, match="to continue its reply") as caught:
        await call
    assert (caught.value.wait, caught.value.seconds) == ("idle", 50)
    await fake.until(lambda: fake.requests[0].aborted)


async def test_endless_stream_times_out(fake, skip_seconds):
    fake.reply(*["word"] * 10_000, pause_seconds=0.01)
    timeouts = {"first_token_seconds": 500, "idle_seconds": 500, "total_seconds": 100}
    received = asyncio.Event()

    async def listen() -> None:
        async for _ in client.run(
            "acme", fake.provider(timeouts=timeouts), model_request()
        ):
            received.set()

    call = asyncio.create_task(listen())
    await received.wait()
    skip_seconds(100)
    with pytest.raises(TimedOut) as caught:
        await call
    assert caught.value.wait == "total"
    await fake.until(lambda: fake.requests[0].aborted)


async def test_whole_reply_is_limited_by_total_timeout_only(fake):
    fake.hang("headers")
    timeouts = {"first_token_seconds": 0.01, "idle_seconds": 0.01, "total_seconds": 0.1}
    with pytest.raises(TimedOut) as caught:
        await collect_events(
            fake.provider(timeouts=timeouts), model_request(stream=False)
        )
    assert caught.value.wait == "total"


async def test_slow_reader_does_not_cause_a_timeout(fake, monkeypatch):
    loop, slow_seconds = asyncio.get_running_loop(), 0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + slow_seconds)
    # The pause has us wait for the first token, and so set a timer.
    fake.reply("a", "b", hang="mid_stream", pause_seconds=0.01)
    events = client.run("acme", fake.provider(), model_request())
    assert await anext(events) == TextDelta("a")
    slow_seconds = 100_000
    # Every timer that is set goes off now.
    await asyncio.sleep(0)
    fake.release()
    assert isinstance([event async for event in events][-1], TurnFinished)


async def test_local_model_url_comes_from_the_environment(fake, monkeypatch):
    monkeypatch.setenv("COULISSE_LOCAL_MODEL_URL", fake.base_url)
    await collect_events(ProviderConfig(kind="local"))
    assert fake.requests[0].path == "/v1/chat/completions"
    monkeypatch.delenv("COULISSE_LOCAL_MODEL_URL")
    with pytest.raises(Unavailable, match=r"coulisse start"):
        await collect_events(ProviderConfig(kind="local"))
