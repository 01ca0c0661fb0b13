"""The limits of a provider, which all processes share through Redis."""

import asyncio
import contextlib
import time

import pytest
import redis

from providers import client
from providers.config import FALLBACK_WAIT_SECONDS, WAIT_SECONDS, ProviderLimits
from providers.errors import CircuitOpen, ProviderBusy
from providers.resilience import provider_limits
from providers.transport import endpoint_pool
from tests.providers import faults
from tests.providers.broker import run_broker
from tests.providers.conftest import collect_events, model_request


@pytest.fixture
def provider(server, broker):
    """Return a provider with limits."""

    def build(**limits):
        limits.setdefault("queue_seconds", 30)
        return server.provider(limits=limits)

    return build


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  no event reports it
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def running_call(provider):
    """Begin a call, and end it with the context."""
    events = client.run("acme", provider, model_request())
    async with contextlib.aclosing(events):
        await anext(events)
        yield


def waiting() -> int:
    limiter = provider_limits._limiters[asyncio.get_running_loop()]
    return limiter._queues["acme"].length


async def test_calls_beyond_the_limit_wait_in_order(server, provider):
    limited = provider(concurrent_calls=1)
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        order = []

        async def call(number):
            await collect_events(limited)
            order.append(number)

        calls = []
        for number in range(5):
            calls.append(asyncio.create_task(call(number)))
            await until(lambda: waiting() == len(calls))
        assert len(server.requests) == 1
    await asyncio.gather(*calls)
    assert order == [0, 1, 2, 3, 4]
    assert len(server.requests) == 6


async def test_full_queue_refuses(server, provider):
    limited = provider(concurrent_calls=1, queue=0)
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        with pytest.raises(ProviderBusy, match=r"providers\.acme\.limits") as caught:
            await collect_events(limited)
        assert caught.value.retry_after_seconds
    await collect_events(limited)


async def test_wait_ends(server, provider):
    limited = provider(concurrent_calls=1, queue_seconds=0.05)
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        with pytest.raises(ProviderBusy, match=r"waited for 0\.05 s"):
            await collect_events(limited)
    assert len(server.requests) == 1


async def test_no_call_waits_longer_and_none_misses_that_its_caller_left(
    server, provider
):
    limited = provider(concurrent_calls=1, queue=1000, queue_seconds=0.3)
    first = await provider_limits.acquire("acme", limited)

    async def wait() -> None:
        with pytest.raises(ProviderBusy):
            async with asyncio.timeout(20):
                await provider_limits.acquire("acme", limited)

    for _ in range(4):
        await asyncio.gather(*(wait() for _ in range(40)))
    for step in range(60):
        waiting_call = asyncio.create_task(provider_limits.acquire("acme", limited))
        await asyncio.sleep(step / 20_000)
        waiting_call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting_call
    first.release()


async def test_caller_that_leaves_the_queue_takes_nothing(server, provider):
    limited = provider(concurrent_calls=1)
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        call = asyncio.create_task(collect_events(limited))
        await until(lambda: waiting() == 1)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
    await collect_events(limited)
    assert len(server.requests) == 2


async def test_calls_of_other_processes_count(server, provider, broker):
    limited = provider(concurrent_calls=1, queue_seconds=0.05)
    server.default = faults.reply("H")
    with redis.Redis.from_url(broker) as other:
        soon = (time.time() + 30) * 1000
        other.zadd("coulisse:provider:acme:calls", {"call of another": soon})
        with pytest.raises(ProviderBusy):
            await collect_events(limited)
        # Its process is gone: nothing has renewed its lease.
        other.zadd("coulisse:provider:acme:calls", {"call of another": 1})
        await collect_events(limited)


async def test_waiting_calls_of_other_processes_take_turns(server, provider, broker):
    limited = provider(concurrent_calls=1, queue_seconds=30)
    server.default = faults.reply("H", "i")
    with redis.Redis.from_url(broker) as other:
        async with running_call(limited):
            call = asyncio.create_task(collect_events(limited))
            await until(lambda: waiting() == 1)
            now = time.time() * 1000
            # It waited first, and asks again now and then.
            other.zadd("coulisse:provider:acme:waiting", {"call of another": now - 10})
            other.zadd("coulisse:provider:acme:asked", {"call of another": now})
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.3)
        assert not call.done()
        assert len(server.requests) == 1
        # Its process is gone.
        other.zadd("coulisse:provider:acme:asked", {"call of another": 1})
    await call


async def test_many_calls_at_once_stay_within_the_limit(server, provider):
    limited = provider(concurrent_calls=4, queue=500)
    server.default = faults.reply("H")
    peak = 0

    async def call():
        nonlocal peak
        events = client.run("acme", limited, model_request())
        async for _ in events:
            limiter = provider_limits._limiters[asyncio.get_running_loop()]
            granted = [each for each in limiter._permits if each.is_granted]
            peak = max(peak, len(granted))

    await asyncio.gather(*(call() for _ in range(150)))
    assert len(server.requests) == 150
    assert peak <= 4


async def test_slow_redis_delays_calls_once(server, tmp_path, settings, monkeypatch):
    monkeypatch.setattr(provider_limits, "TIMEOUT_SECONDS", 0.2)
    limited = server.provider(limits={"concurrent_calls": 1, "queue_seconds": 1})
    server.default = faults.reply("H")
    with run_broker(tmp_path) as settings.REDIS_URL:
        await collect_events(limited)
        with redis.Redis.from_url(settings.REDIS_URL) as other:
            other.execute_command("CLIENT", "PAUSE", "60000", "ALL")
        started = time.monotonic()
        await asyncio.gather(*(collect_events(limited) for _ in range(10)))
        await collect_events(limited)
        assert time.monotonic() - started < 5
    assert len(server.requests) == 12


async def test_open_circuit_uses_no_allowance(server, provider):
    limited = provider(requests_per_minute=3, queue_seconds=5)
    pool = endpoint_pool.find_pool("acme", limited, "the-model")
    pool.endpoints[0].circuit.follow(60.0, "down", is_recoverable=True)
    for _ in range(5):
        with pytest.raises(CircuitOpen):
            await collect_events(limited)
    pool.endpoints[0].circuit.follow(0.0, "", is_recoverable=True)
    server.default = faults.reply("H")
    await collect_events(limited)


async def test_continuation_does_not_wait(server, provider):
    limited = provider(concurrent_calls=1, queue=0)
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        events = client.run("acme", limited, model_request(is_continuation=True))
        assert [event async for event in events]


async def test_long_calls_keep_their_permit(server, provider, monkeypatch):
    monkeypatch.setattr(provider_limits, "LEASE_SECONDS", 0.4)
    monkeypatch.setattr(provider_limits, "RENEW_SECONDS", 0.05)
    limited = provider(concurrent_calls=1, queue_seconds=1)
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        with pytest.raises(ProviderBusy):
            await collect_events(limited)


async def test_requests_per_minute(server, provider):
    limited = provider(requests_per_minute=3, queue_seconds=0.05)
    server.default = faults.reply("H")
    for _ in range(3):
        await collect_events(limited)
    with pytest.raises(ProviderBusy):
        await collect_events(limited)
    assert len(server.requests) == 3


async def test_requests_are_admitted_again(server, provider):
    limited = provider(requests_per_minute=600, queue_seconds=30)
    server.default = faults.reply("H")
    await collect_events(limited)
    with redis.Redis.from_url(provider_limits.settings.REDIS_URL) as other:
        full_at = time.time() * 1000 + 60_300
        other.set("coulisse:provider:acme:requests", full_at)
        started = time.monotonic()
        await collect_events(limited)
    assert time.monotonic() - started >= 0.3


async def test_tokens_per_minute_count_when_known(server, provider):
    limited = provider(tokens_per_minute=1, queue_seconds=0.05)
    server.default = faults.reply("H")
    await collect_events(limited)
    with pytest.raises(ProviderBusy):
        await collect_events(limited)


async def test_failed_calls_give_their_permit_back(server, provider):
    limited = provider(concurrent_calls=1, queue_seconds=5)
    server.default = faults.status(400)
    for _ in range(2):
        with pytest.raises(Exception, match="refused"):
            await collect_events(limited)


async def test_limits_do_not_apply_without_redis(server, settings, tmp_path, caplog):
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    limited = server.provider(limits={"concurrent_calls": 1, "queue": 0})
    server.default = faults.reply("H", "i")
    async with running_call(limited):
        await collect_events(limited)
    assert "limits of provider 'acme' do not apply" in caplog.text
    assert len(caplog.records) == 1


def test_longest_wait_is_shorter_with_a_fallback():
    limits = ProviderLimits()
    assert limits.longest_wait(has_fallback=True) == FALLBACK_WAIT_SECONDS
    assert limits.longest_wait(has_fallback=False) == WAIT_SECONDS
    assert ProviderLimits(queue_seconds=3).longest_wait(has_fallback=True) == 3
