"""The choice of endpoints, and retries at others, over real HTTP."""

import asyncio
from collections import Counter

import pytest

from core.errors import Invalid
from core.trace import Attempt
from providers.config import ProviderConfig
from providers.errors import (
    KeyRefused,
    Overloaded,
    RateLimited,
    TimedOut,
)
from providers.transport import endpoint_pool
from tests.providers import faults
from tests.providers.conftest import collect_events, model_request
from tests.providers.endpoints.endpoint_states import (
    SECRETS,
    by_key_name,
    two_endpoints,
    used_keys,
)
from tests.providers.fault_server import FaultServer


async def test_calls_are_distributed_by_weight(server):
    endpoints = [
        {"name": "a", "api_key": SECRETS["a"], "weight": 9},
        {"name": "b", "api_key": SECRETS["b"]},
    ]
    provider = server.provider(api_key=None, endpoints=endpoints)
    chooses = endpoint_pool.find_pool("acme", provider)
    drawn = Counter(
        each.name for _ in range(2000) if (each := chooses.choose(chooses.endpoints))
    )
    assert 1700 < drawn["a"] < 1900
    assert drawn["a"] + drawn["b"] == 2000


async def test_each_endpoint_uses_its_key_url_and_headers(server, first_endpoint):
    with FaultServer() as elsewhere:
        provider = ProviderConfig.model_validate(
            {
                "kind": "openai",
                "api_key": "sk-shared",
                "headers": {"X-Team": "all"},
                "endpoints": [
                    {"base_url": server.entry()["base_url"]},
                    {
                        "base_url": elsewhere.entry()["base_url"],
                        "api_key": "sk-own",
                        "headers": {"X-Region": "eu"},
                    },
                ],
            }
        )
        server.then(faults.status(500))
        await collect_events(provider)
        (here,), (there,) = server.requests, elsewhere.requests
    assert (here.key, there.key) == ("sk-shared", "sk-own")
    assert here.headers["x-team"] == there.headers["x-team"] == "all"
    assert "x-region" not in here.headers
    assert there.headers["x-region"] == "eu"


async def test_each_endpoint_uses_the_parameter_names_of_its_url(
    server, first_endpoint, monkeypatch
):
    """OpenAI's API and compatible servers name one parameter differently."""
    openai = server.entry()["base_url"]
    kind = endpoint_pool.registry.KINDS["openai"]
    monkeypatch.setitem(
        endpoint_pool.registry.KINDS,
        "openai",
        endpoint_pool.registry.ProviderKind(kind.wire, base_url=openai),
    )
    with FaultServer() as elsewhere:
        endpoints = [{}, {"base_url": elsewhere.entry()["base_url"]}]
        provider = ProviderConfig(
            kind="openai", api_key=SECRETS["a"], endpoints=endpoints
        )
        server.then(faults.status(500))
        await collect_events(provider, model_request(parameters={"max_tokens": 5}))
        assert server.requests[0].body["max_completion_tokens"] == 5
        assert elsewhere.requests[0].body["max_tokens"] == 5


@pytest.mark.parametrize("code", [401, 402, 403, 404, 408, 429, 500, 503])
@pytest.mark.parametrize("stream", [True, False])
async def test_failure_at_one_endpoint_tries_another_at_once(
    server, first_endpoint, pauses, code, stream
):
    server.default = by_key_name(a=faults.status(code))
    attempts: list[Attempt] = []
    assert await collect_events(
        two_endpoints(server), model_request(stream=stream), attempts=attempts
    )
    assert (used_keys(server), pauses) == (["a", "b"], [])
    assert [attempt.endpoint for attempt in attempts] == ["a", "b"]
    failed, answered = attempts
    assert failed.error
    assert answered.error is None


@pytest.mark.parametrize(
    "fault",
    [
        faults.half_json,
        faults.hang_up,
        faults.empty,
        faults.not_http,
        faults.reset,
        faults.web_page,
    ],
)
async def test_broken_reply_tries_another_endpoint(
    server, first_endpoint, pauses, fault
):
    server.default = by_key_name(a=fault)
    assert await collect_events(two_endpoints(server))
    assert (used_keys(server), pauses) == (["a", "b"], [])


async def test_first_token_timeout_tries_another_endpoint(server, first_endpoint):
    server.default = by_key_name(a=faults.silence)
    assert await collect_events(
        two_endpoints(server, timeouts={"first_token_seconds": 0.5})
    )
    assert used_keys(server) == ["a", "b"]


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_client_error_tries_no_other_endpoint(server, first_endpoint, code):
    server.default = faults.status(code)
    with pytest.raises(Invalid):
        await collect_events(two_endpoints(server))
    assert used_keys(server) == ["a"]


async def test_content_filter_tries_no_other_endpoint(server, first_endpoint):
    server.default = faults.status(400, "blocked by our content management policy")
    with pytest.raises(Invalid) as caught:
        await collect_events(two_endpoints(server))
    assert caught.value.code == "content_filter"
    assert used_keys(server) == ["a"]


async def test_no_other_endpoint_is_tried_after_the_first_token(server, first_endpoint):
    server.default = by_key_name(a=faults.stopped(faults.CUT))
    with pytest.raises(Exception, match="broke the connection"):
        await collect_events(two_endpoints(server))
    assert used_keys(server) == ["a"]


async def test_backoff_happens_between_rounds(server, first_endpoint, pauses):
    server.default = faults.status(503)
    with pytest.raises(Overloaded):
        await collect_events(two_endpoints(server, retries=2, breaker={"failures": 0}))
    assert used_keys(server) == ["a", "b"] * 3
    assert len(pauses) == 2


async def test_round_waits_for_the_shortest_retry_after(server, first_endpoint, pauses):
    server.default = by_key_name(
        a=faults.status(429, retry_after=20), b=faults.status(429, retry_after=3)
    )
    with pytest.raises(RateLimited) as caught:
        await collect_events(two_endpoints(server, retries=1))
    assert 3 <= pauses[0] < 4
    # The other one has asked for more time than has gone by.
    assert used_keys(server) == ["a", "b", "b"]
    assert caught.value.retry_after_seconds == 3


async def test_permanent_failure_is_not_retried(server, first_endpoint, pauses):
    server.default = by_key_name(a=faults.status(401), b=faults.status(503))
    with pytest.raises(Overloaded):
        await collect_events(two_endpoints(server, retries=2))
    assert used_keys(server) == ["a", "b", "b", "b"]


@pytest.mark.parametrize("dead", ["a", "b"])
async def test_transient_error_is_reported_before_permanent_one(
    server, first_endpoint, dead
):
    server.default = by_key_name(
        **{name: faults.status(401 if name == dead else 503) for name in SECRETS}
    )
    with pytest.raises(Overloaded):
        await collect_events(two_endpoints(server, retries=0))
    assert used_keys(server) == ["a", "b"]


async def test_unknown_model_is_not_retried_at_an_endpoint(
    server, first_endpoint, pauses
):
    server.default = by_key_name(a=faults.status(404), b=faults.status(503))
    with pytest.raises(Overloaded):
        await collect_events(two_endpoints(server, retries=2))
    assert used_keys(server) == ["a", "b", "b", "b"]


async def test_all_refused_keys_error_names_the_setting(server, first_endpoint, pauses):
    server.default = faults.status(401)
    with pytest.raises(KeyRefused, match=r"providers\.acme\.endpoints\[0\]\.api_key"):
        await collect_events(two_endpoints(server))
    assert (used_keys(server), pauses) == (["a", "b"], [])


async def test_inherited_setting_is_named_at_its_place(server):
    endpoints = [{"api_key": SECRETS["a"]}]
    server.default = faults.web_page
    with pytest.raises(Exception, match=r"check providers\.acme\.base_url"):
        await collect_events(server.provider(api_key=None, endpoints=endpoints))


async def test_errors_redact_keys_of_all_endpoints(server, first_endpoint):
    message = f"not {SECRETS['b']}, nor {SECRETS['a']}"
    server.default = faults.status(400, message)
    with pytest.raises(Invalid) as caught:
        await collect_events(two_endpoints(server))
    assert "not [redacted], nor [redacted]" in str(caught.value)


async def test_total_timeout_covers_all_endpoints(server, first_endpoint, skip_seconds):
    server.default = faults.silence
    timeouts = {"first_token_seconds": 1000, "total_seconds": 1500}
    call = asyncio.create_task(collect_events(two_endpoints(server, timeouts=timeouts)))
    await server.until(lambda: used_keys(server) == ["a"])
    skip_seconds(1000)
    await server.until(lambda: used_keys(server) == ["a", "b"])
    skip_seconds(500)
    with pytest.raises(TimedOut) as caught:
        await call
    assert caught.value.wait == "total"
    assert used_keys(server) == ["a", "b"]
    await server.until(lambda: server.open == 0)


async def test_rate_limited_endpoint_is_chosen_last(server, first_endpoint, clock):
    server.default = by_key_name(a=faults.status(429, retry_after=20))
    provider = two_endpoints(server)
    for _ in range(3):
        await collect_events(provider)
    assert used_keys(server) == ["a", "b", "b", "b"]
    clock.at += 20
    await collect_events(provider)
    assert used_keys(server)[4:] == ["a", "b"]


async def test_fast_endpoint_is_chosen_by_latency(server):
    with FaultServer() as other:
        endpoints = [
            {"name": "slow", "base_url": server.entry()["base_url"]},
            {"name": "fast", "base_url": other.entry()["base_url"]},
        ]
        provider = server.provider(endpoints=endpoints, balance="latency")
        pool = endpoint_pool.find_pool("acme", provider, "the-model")
        server.default = other.default = faults.reply()
        pool.endpoints[0].add_latency(0.5)
        pool.endpoints[1].add_latency(0.1)
        for _ in range(5):
            await collect_events(provider)
        assert len(other.requests) == 5


def test_latency_counts_calls_that_wait_and_is_forgotten(server, clock):
    provider = two_endpoints(server, balance="latency")
    pool = endpoint_pool.find_pool("acme", provider, "the-model")
    slow, fast = pool.endpoints
    slow.add_latency(0.5)
    fast.add_latency(0.1)
    assert pool.choose(pool.endpoints) is fast
    fast.waiting = 9
    assert pool.choose(pool.endpoints) is slow
    fast.waiting = 0
    clock.at += 100
    assert slow.expected_wait(clock.at) < 0.01
    slow.add_latency(0.01)
    assert slow.expected_wait(clock.at) < 0.02
