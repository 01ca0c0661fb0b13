"""Circuit breakers of endpoints, over real HTTP."""

import asyncio
import logging

import pytest

from core.trace import Attempt
from providers import client
from providers.config import ProviderConfig
from providers.errors import (
    CircuitOpen,
    KeyRefused,
    ModelUnknown,
    OutOfCredit,
    Overloaded,
    RateLimited,
    TimedOut,
)
from providers.resilience import circuit_breaker
from providers.transport import endpoint_pool
from tests.providers import faults
from tests.providers.conftest import collect_events
from tests.providers.endpoints import endpoint_states
from tests.providers.endpoints.endpoint_states import (
    SECRETS,
    by_key_name,
    endpoint_state,
    single_endpoint,
    two_endpoints,
    used_keys,
)


async def assert_fails(provider: ProviderConfig, times: int, error=Overloaded) -> None:
    for _ in range(times):
        with pytest.raises(error):
            await collect_events(provider)


async def test_failing_provider_opens_its_circuit(server, clock):
    server.default = faults.status(500, "what a day")
    provider = single_endpoint(server)
    await assert_fails(provider, 3)
    with pytest.raises(CircuitOpen, match=r"no requests for 5 s.*what a day") as caught:
        await collect_events(provider)
    assert (caught.value.code, caught.value.provider) == (
        "provider_circuit_open",
        "acme",
    )
    assert caught.value.retry_after_seconds == 5
    assert len(server.requests) == 3
    assert endpoint_state().state == "open"


async def test_call_that_opens_the_circuit_raises_the_failure(server, clock, pauses):
    server.default = faults.status(500)
    with pytest.raises(Overloaded) as caught:
        await collect_events(single_endpoint(server, retries=10))
    assert caught.value.code == "provider_overloaded"
    assert (len(server.requests), len(pauses)) == (3, 2)


async def test_successful_trial_call_closes_the_circuit(server, clock, caplog):
    provider = single_endpoint(server)
    server.then(*[faults.status(500)] * 3)
    await assert_fails(provider, 3)
    clock.at += 5
    assert endpoint_state().state == "trying"
    with caplog.at_level(logging.WARNING):
        await collect_events(provider)
    assert "provider 'acme', model 'the-model': circuit breaker closed" in caplog.text
    assert endpoint_state() == endpoint_states.EndpointState(
        "acme", "", "closed", None, 0, None
    )
    await collect_events(provider)


async def test_open_time_doubles_up_to_its_maximum(server, clock):
    server.default = faults.status(500)
    provider = single_endpoint(server)
    await assert_fails(provider, 3)
    waits = []
    for _ in range(6):
        with pytest.raises(CircuitOpen) as caught:
            await collect_events(provider)
        waits.append(caught.value.retry_after_seconds)
        clock.at += caught.value.retry_after_seconds or 0
        await assert_fails(provider, 1)
    assert waits == [5, 10, 15, 15, 15, 15]
    assert len(server.requests) == 3 + 6


async def test_half_open_circuit_allows_one_call(server, clock):
    provider = single_endpoint(server)
    server.then(*[faults.status(500)] * 3, faults.silence)
    await assert_fails(provider, 3)
    clock.at += 5
    trying = asyncio.create_task(collect_events(provider))
    await server.until(lambda: len(server.requests) == 4)
    await assert_fails(provider, 1, CircuitOpen)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    # Which says nothing: the next one tries.
    await collect_events(provider)
    assert endpoint_state().state == "closed"


async def test_hanging_trial_call_does_not_block_forever(server, clock):
    provider = single_endpoint(server)
    server.then(*[faults.status(500)] * 3, faults.silence)
    await assert_fails(provider, 3)
    clock.at += 5
    trying = asyncio.create_task(collect_events(provider))
    await server.until(lambda: len(server.requests) == 4)
    clock.at += 5
    await collect_events(provider)
    trying.cancel()
    await asyncio.gather(trying, return_exceptions=True)
    assert endpoint_state().state == "closed"


async def test_circuit_stays_open_for_retry_after(server, clock):
    server.default = faults.status(503, retry_after=25)
    provider = single_endpoint(server)
    await assert_fails(provider, 3)
    with pytest.raises(CircuitOpen) as caught:
        await collect_events(provider)
    assert caught.value.retry_after_seconds == 25


async def test_circuit_open_time_is_limited(server, clock):
    server.default = faults.status(503, retry_after=1_000_000)
    await assert_fails(single_endpoint(server), 3)
    with pytest.raises(CircuitOpen) as caught:
        await collect_events(single_endpoint(server))
    assert caught.value.retry_after_seconds == 300


async def test_success_resets_the_failure_count(server, clock):
    provider = single_endpoint(server)
    server.then(*[faults.status(500)] * 2, faults.reply(), *[faults.status(500)] * 2)
    await assert_fails(provider, 2)
    await collect_events(provider)
    await assert_fails(provider, 2)
    await collect_events(provider)


async def test_short_failures_survived_by_retries_open_nothing(server, clock):
    provider = single_endpoint(server, breaker={"failures": 3, "after_seconds": 2})
    server.default = faults.status(500)
    await assert_fails(provider, 10)
    clock.at += 2
    await assert_fails(provider, 1)
    await assert_fails(provider, 1, CircuitOpen)


async def test_burst_of_parallel_failures_opens_nothing(server, pauses):
    """A hundred parallel calls succeed by retrying after a short failure."""
    provider = server.provider(retries=10)
    server.then(*[faults.status(503)] * 100)
    assert all(await asyncio.gather(*(collect_events(provider) for _ in range(100))))
    assert endpoint_state().state == "closed"


@pytest.mark.parametrize(
    ("code", "error"),
    [(429, RateLimited), (401, KeyRefused), (402, OutOfCredit), (404, ModelUnknown)],
)
async def test_refusals_do_not_open_a_single_endpoints_circuit(
    server, clock, code, error
):
    server.default = faults.status(code)
    await assert_fails(single_endpoint(server), 20, error)
    assert len(server.requests) == 20
    assert endpoint_state().state == "closed"


async def test_rate_limits_do_not_open_a_single_endpoints_circuit(
    server, clock, pauses
):
    """A single endpoint gets as many tries as without a breaker."""
    server.default = faults.status(429, retry_after=1)
    provider = single_endpoint(server, retries=2)
    await assert_fails(provider, 10, RateLimited)
    assert (len(server.requests), len(pauses)) == (30, 20)
    server.default = faults.reply()
    await collect_events(provider)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.silence, TimedOut),
        (faults.hang_up, Exception),
        (faults.half_json, Exception),
    ],
)
async def test_connection_failures_open_the_circuit(server, clock, fault, error):
    server.default = fault
    provider = single_endpoint(server, timeouts={"first_token_seconds": 0.02})
    await assert_fails(provider, 3, error)
    await assert_fails(provider, 1, CircuitOpen)


async def test_late_failures_and_cancelled_calls_do_not_count(server, clock):
    provider = single_endpoint(server)
    server.default = faults.stopped(faults.CUT)
    await assert_fails(provider, 5, Exception)
    server.default = faults.silence
    for number in range(5):
        task = asyncio.create_task(collect_events(provider))
        await server.until(lambda so_far=number: len(server.requests) > 5 + so_far)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (endpoint_state().state, endpoint_state().failures) == ("closed", 0)


async def test_endpoint_with_refused_key_is_skipped_and_logged_once(
    server, first_endpoint, clock, caplog
):
    server.default = by_key_name(a=faults.status(401))
    provider = two_endpoints(server)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await collect_events(provider)
    assert used_keys(server) == ["a", *"bbbbb"]
    records = [
        record for record in caplog.records if record.name == circuit_breaker.__name__
    ]
    (warning,) = [record.getMessage() for record in records]
    label = "provider 'acme', model 'the-model', endpoint 'a'"
    assert f"{label}: circuit breaker open for 60 s" in warning
    assert "providers.acme.endpoints[0].api_key" in warning
    assert SECRETS["a"] not in warning
    clock.at += 60
    await collect_events(provider)
    assert used_keys(server)[6:] == ["a", "b"]
    clock.at += 119
    await collect_events(provider)
    assert used_keys(server)[8:] == ["b"]


async def test_refused_keys_have_no_retry_after(server, clock):
    server.default = faults.status(402)
    await assert_fails(two_endpoints(server), 1, OutOfCredit)
    with pytest.raises(CircuitOpen, match="no credit or quota left") as caught:
        await collect_events(two_endpoints(server))
    assert caught.value.retry_after_seconds is None


async def test_403_does_not_disable_the_key(server, first_endpoint, clock):
    server.default = by_key_name(a=faults.status(403))
    await collect_events(two_endpoints(server))
    await collect_events(two_endpoints(server))
    assert used_keys(server) == ["a", "b", "a", "b"]


async def test_changed_key_resets_only_its_endpoint(server, first_endpoint, clock):
    server.default = faults.status(401)
    await assert_fails(two_endpoints(server), 1, KeyRefused)
    server.default = faults.reply()
    edited = two_endpoints(server).model_dump()
    endpoints = [
        {"name": "a", "api_key": SECRETS["a"]},
        {"name": "b", "api_key": "sk-another"},
    ]
    await collect_events(
        ProviderConfig.model_validate({**edited, "endpoints": endpoints})
    )
    assert server.requests[-1].key == "sk-another"
    assert (endpoint_state("a").state, endpoint_state("b").state) == (
        "open",
        "closed",
    )


async def test_error_mentions_skipped_endpoints(server, first_endpoint, clock):
    # A retry may go to one alone, which others find down meanwhile.
    server.default = by_key_name(a=faults.status(401))
    provider = two_endpoints(server)
    await collect_events(provider)
    error = endpoint_pool.find_pool("acme", provider, "the-model").circuit_open_error()
    assert "refused this server's key" in error.message
    assert "providers.acme" in error.detail
    assert "providers.acme" not in error.message


async def test_breaker_can_be_disabled(server, clock):
    server.default = faults.status(500)
    await assert_fails(single_endpoint(server), 3)
    await assert_fails(single_endpoint(server, breaker={"failures": 0}), 20)
    assert len(server.requests) == 23


async def test_endpoint_states_are_reported(server, first_endpoint, clock):
    server.default = by_key_name(a=faults.status(401))
    await collect_events(two_endpoints(server))
    dead, well = endpoint_states.endpoint_states()
    assert (dead.provider, dead.endpoint, dead.state) == ("acme", "a", "open")
    assert dead.open_until is not None
    assert "refused this server's key" in (dead.last_error or "")
    assert (well.endpoint, well.state, well.last_error) == (
        "b",
        "closed",
        None,
    )


async def test_circuit_states_are_limited(server):
    for number in range(endpoint_pool.MAX_POOLS + 10):
        endpoint_pool.find_pool(f"p{number}", server.provider())
    assert len(endpoint_states.endpoint_states()) == endpoint_pool.MAX_POOLS


async def test_call_with_open_circuits_sends_nothing(server, clock):
    server.default = faults.status(500)
    await assert_fails(single_endpoint(server), 3)
    attempts: list[Attempt] = []
    with pytest.raises(CircuitOpen):
        await collect_events(single_endpoint(server, retries=5), attempts=attempts)
    assert attempts == []


async def test_single_named_endpoint_has_its_name_in_attempts(server):
    attempts: list[Attempt] = []
    provider = server.provider(endpoints=[{"name": "main"}])
    await collect_events(provider, attempts=attempts)
    assert [attempt.endpoint for attempt in attempts] == ["main"]


async def test_embedding_failures_do_not_open_the_chat_circuit(server, clock):
    source = client.ProviderSource("acme", single_endpoint(server), "the-model")
    server.default = faults.status(500)
    for _ in range(5):
        with pytest.raises(Overloaded):
            await client.post_json(source, "/embeddings", {}, lambda it, _: it)
    server.default = faults.reply()
    assert await collect_events(source.provider)
