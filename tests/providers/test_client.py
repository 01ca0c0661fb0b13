"""Connections, retries, attempts and cancellation, over real HTTP on both wires."""

import asyncio
import contextlib

import pytest

from core.errors import Invalid
from core.events import TextDelta
from core.messages import Message
from core.trace import Attempt
from providers import client
from providers.config import ProviderConfig
from providers.errors import (
    BrokenReply,
    Overloaded,
    ProviderDisconnected,
    RateLimited,
)
from providers.resilience import backoff
from testing.scripted_provider import FakeProvider
from tests.providers.conftest import collect_events, model_request
from tests.providers.faults import deaf_port

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
PLACES = pytest.mark.parametrize("place", ["headers", "first_token", "mid_stream"])


# Disconnects.


@KINDS
@PLACES
async def test_cancelled_call_closes_the_provider_connection(fake, kind: str, place):
    fake.hang(place)
    received = asyncio.Event()

    async def listen() -> None:
        async with contextlib.aclosing(
            client.run("acme", fake.provider(kind), model_request())
        ) as events:
            async for _ in events:
                received.set()

    listening = asyncio.create_task(listen())
    await fake.until(lambda: fake.requests)
    if place == "mid_stream":
        await received.wait()
    listening.cancel()
    await fake.until(lambda: fake.requests[0].aborted)
    with pytest.raises(asyncio.CancelledError):
        await listening


@KINDS
async def test_closing_the_generator_closes_the_connection(fake, kind: str):
    fake.hang("mid_stream")
    events = client.run("acme", fake.provider(kind), model_request())
    assert await anext(events) == TextDelta("Hello")
    await events.aclose()
    await fake.until(lambda: fake.requests[0].aborted)


async def test_cancelled_whole_reply_closes_the_connection(fake):
    fake.hang("headers")
    task = asyncio.create_task(
        collect_events(fake.provider(), model_request(stream=False))
    )
    await fake.until(lambda: fake.requests)
    task.cancel()
    await fake.until(lambda: fake.requests[0].aborted)
    assert len(fake.requests) == 1


async def test_hanging_reply_can_continue(fake):
    fake.hang("mid_stream", "a", "b")
    events = client.run("acme", fake.provider(), model_request())
    assert await anext(events) == TextDelta("a")
    fake.release()
    assert await anext(events) == TextDelta("b")
    await events.aclose()


# Connections.


@KINDS
@pytest.mark.parametrize("stream", [True, False])
async def test_connection_is_reused(fake, kind: str, stream: bool):
    for _ in range(3):
        await collect_events(fake.provider(kind), model_request(stream=stream))
    assert fake.connections == 1


async def test_aborted_connection_is_not_reused(fake):
    events = client.run("acme", fake.provider(), model_request())
    await anext(events)
    await events.aclose()
    await collect_events(fake.provider())
    assert fake.connections >= 1
    assert len(fake.requests) == 2


async def test_calls_run_in_parallel(fake):
    fake.hang("headers")
    fake.hang("headers")
    calls = [asyncio.create_task(collect_events(fake.provider())) for _ in range(2)]
    await fake.until(lambda: len(fake.requests) == 2)
    fake.release()
    assert all(await asyncio.gather(*calls))


def test_each_event_loop_has_its_own_connections(fake):
    async def call() -> int:
        try:
            return len(await collect_events(fake.provider()))
        finally:
            await client.close()

    assert asyncio.run(call()) == asyncio.run(call())


async def test_redirect_does_not_receive_the_key(fake):
    with FakeProvider() as elsewhere:
        fake.raw("", status=307, headers={"Location": elsewhere.base_url})
        with pytest.raises(BrokenReply, match=r"providers\.acme\.base_url"):
            await collect_events(fake.provider())
        assert elsewhere.requests == []


async def test_cookies_are_not_kept(fake):
    fake.reply("a", headers={"Set-Cookie": "session=ada"})
    await collect_events(fake.provider())
    await collect_events(fake.provider())
    assert "cookie" not in fake.requests[1].headers


async def test_proxy_of_the_environment_is_used(fake, monkeypatch):
    monkeypatch.setenv("http_proxy", fake.root_url)
    await collect_events(ProviderConfig(kind="openai", base_url="http://model.test/v1"))
    assert fake.requests[0].path == "http://model.test/v1/chat/completions"


async def test_invalid_unicode_is_a_client_error(fake):
    with pytest.raises(Invalid, match="cannot be encoded as JSON"):
        await collect_events(
            fake.provider(), model_request(messages=[Message("user", "\ud800")])
        )


# Retries.


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("stream", [True, False])
async def test_transient_failure_is_retried(fake, pauses, status, stream):
    fake.fail(status)
    fake.reply("Hi")
    events = await collect_events(fake.provider(), model_request(stream=stream))
    assert events[0] == TextDelta("Hi")
    assert len(pauses) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_permanent_failure_is_not_retried(fake, pauses, status):
    fake.fail(status)
    with pytest.raises(Exception, match="acme"):
        await collect_events(fake.provider())
    assert (len(fake.requests), pauses) == (1, [])


@pytest.mark.parametrize("place", ["headers", "first_token"])
async def test_connection_cut_before_the_first_token_is_retried(fake, pauses, place):
    fake.cut(place)
    fake.reply("Hi")
    assert (await collect_events(fake.provider()))[0] == TextDelta("Hi")


async def test_call_is_not_retried_after_the_first_token(fake, pauses):
    fake.cut("mid_stream")
    events = client.run("acme", fake.provider(), model_request())
    assert await anext(events) == TextDelta("Hello")
    with pytest.raises(ProviderDisconnected):
        await anext(events)
    assert (len(fake.requests), pauses) == (1, [])


async def test_error_as_the_first_event_is_retried(fake, pauses):
    fake.reply(error={"type": "overloaded_error", "message": "Overloaded"})
    fake.reply("Hi")
    assert (await collect_events(fake.provider("anthropic")))[0] == TextDelta("Hi")


async def test_retries_stop_at_the_configured_number(fake, pauses):
    for _ in range(3):
        fake.fail(503, "try later")
    with pytest.raises(Overloaded, match="try later"):
        await collect_events(fake.provider(retries=2))
    assert (len(fake.requests), len(pauses)) == (3, 2)


async def test_zero_retries_is_valid(fake, pauses):
    fake.fail(503)
    with pytest.raises(Overloaded):
        await collect_events(fake.provider(retries=0))
    assert pauses == []


@pytest.mark.parametrize(
    "header", [{"Retry-After": "7"}, {"retry-after-ms": "7000", "Retry-After": "90"}]
)
async def test_retry_after_is_respected(fake, pauses, header):
    fake.fail(429, headers=header)
    await collect_events(fake.provider())
    assert 7 <= pauses[0] <= 8


async def test_long_retry_after_is_not_waited_for(fake, pauses):
    fake.fail(429, headers={"Retry-After": "120"})
    with pytest.raises(RateLimited) as caught:
        await collect_events(fake.provider())
    assert caught.value.retry_after_seconds == 120
    assert pauses == []


async def test_retry_does_not_wait_past_the_total_timeout(fake, pauses):
    fake.fail(503, headers={"Retry-After": "20"})
    with pytest.raises(Overloaded):
        await collect_events(fake.provider(timeouts={"total_seconds": 10}))
    assert pauses == []


async def test_exhausted_credit_is_not_retried(fake, pauses):
    fake.fail(429, code="insufficient_quota")
    with pytest.raises(Exception, match="no credit or quota left"):
        await collect_events(fake.provider())
    assert pauses == []


def test_backoff_grows_and_is_random(monkeypatch):
    monkeypatch.setattr(backoff.random, "uniform", lambda low, high: high)
    waits = [backoff.delay_seconds(attempt, None) for attempt in range(1, 8)]
    assert waits == [0.5, 1, 2, 4, 8, 8, 8]


def test_retry_after_accepts_a_date(monkeypatch):
    assert (
        backoff.parse_retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    )
    later = backoff.parse_retry_after({"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"})
    assert later is not None
    assert later > 1e9


@pytest.mark.parametrize("value", ["soon", "", "nan", "-1"])
def test_invalid_retry_after_is_ignored(value: str):
    assert backoff.parse_retry_after({"Retry-After": value}) is None


# Durations.


async def test_every_attempt_is_recorded(fake, pauses):
    fake.fail(503, "try later")
    attempts: list[Attempt] = []
    await collect_events(fake.provider(), attempts=attempts)
    failed, answered = attempts
    assert failed.error is not None
    assert "try later" in failed.error
    assert (answered.endpoint, answered.error) == ("", None)
    assert 0 < answered.seconds < 10


async def test_attempts_of_a_failed_call_are_recorded(fake):
    fake.fail(400, "no such field")
    attempts: list[Attempt] = []
    with pytest.raises(Invalid):
        await collect_events(fake.provider(), attempts=attempts)
    assert ["no such field" in (attempt.error or "") for attempt in attempts] == [True]


async def test_cancelled_attempt_is_recorded(fake):
    fake.hang("headers")
    attempts: list[Attempt] = []
    task = asyncio.create_task(collect_events(fake.provider(), attempts=attempts))
    await fake.until(lambda: fake.requests)
    assert attempts == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [attempt.error for attempt in attempts] == ["cancelled"]
    assert attempts[0].is_billed


async def test_attempt_cancelled_while_connecting_is_not_billed():
    attempts: list[Attempt] = []
    with deaf_port() as port:
        address = {"base_url": f"http://127.0.0.1:{port}/v1", "api_key": "key"}
        provider = ProviderConfig.model_validate({"kind": "openai", **address})
        task = asyncio.create_task(collect_events(provider, attempts=attempts))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [attempt.error for attempt in attempts] == ["cancelled before it was sent"]
    assert not attempts[0].is_billed
