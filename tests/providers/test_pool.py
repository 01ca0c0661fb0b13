"""Several endpoints, and leaving alone those that fail, over real HTTP."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from core.errors import Invalid
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

from . import circuits
from . import fault_server as faults
from .conftest import asking, said
from .fault_server import Fault, FaultServer

SECRETS = {"a": "sk-key-of-endpoint-a", "b": "sk-key-of-endpoint-b"}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def first(monkeypatch) -> None:
    """Of those that may be chosen, the first is."""
    monkeypatch.setattr(
        endpoint_pool.random, "choices", lambda ready, weights: ready[:1]
    )


class Clock:
    """The breakers' time, which passes when a test wants it to."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(circuit_breaker, "now", clock)
    return clock


def two(server: FaultServer, **fields) -> ProviderConfig:
    """A provider with two keys, a and b; its breaker takes every failure at once."""
    endpoints = [{"name": name, "api_key": key} for name, key in SECRETS.items()]
    fields.setdefault("breaker", {"after_seconds": 0})
    return server.provider(api_key=None, endpoints=endpoints, **fields)


def one(server: FaultServer, **fields) -> ProviderConfig:
    fields.setdefault("breaker", {"after_seconds": 0, "failures": 3})
    fields.setdefault("retries", 0)
    return server.provider(**fields)


def keyed(**by_name: Fault) -> Fault:
    """Answer each key in its own way, and well where nothing is said."""
    by_key = {SECRETS[name]: fault for name, fault in by_name.items()}
    return lambda request: by_key.get(request.key, faults.reply())(request)


def asked(server: FaultServer) -> list[str]:
    """Whose keys the requests came with, in order."""
    names = {key: name for name, key in SECRETS.items()}
    return [names[request.key] for request in server.requests]


def state(endpoint: str = "") -> circuits.State:
    (found,) = (each for each in circuits.states() if each.endpoint == endpoint)
    return found


# Which endpoint.


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


async def test_each_endpoint_uses_its_key_url_and_headers(server, first):
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
        await said(provider)
        (here,), (there,) = server.requests, elsewhere.requests
    assert (here.key, there.key) == ("sk-shared", "sk-own")
    assert here.headers["x-team"] == there.headers["x-team"] == "all"
    assert "x-region" not in here.headers
    assert there.headers["x-region"] == "eu"


async def test_each_endpoint_uses_the_parameter_names_of_its_url(
    server, first, monkeypatch
):
    """OpenAI's own API and servers that are like it differ in a name."""
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
        await said(provider, asking(parameters={"max_tokens": 5}))
        assert server.requests[0].body["max_completion_tokens"] == 5
        assert elsewhere.requests[0].body["max_tokens"] == 5


@pytest.mark.parametrize("code", [401, 402, 403, 404, 408, 429, 500, 503])
@pytest.mark.parametrize("stream", [True, False])
async def test_failure_at_one_endpoint_tries_another_at_once(
    server, first, pauses, code, stream
):
    server.default = keyed(a=faults.status(code))
    attempts: list[Attempt] = []
    assert await said(two(server), asking(stream=stream), attempts=attempts)
    assert (asked(server), pauses) == (["a", "b"], [])
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
async def test_broken_reply_tries_another_endpoint(server, first, pauses, fault):
    server.default = keyed(a=fault)
    assert await said(two(server))
    assert (asked(server), pauses) == (["a", "b"], [])


async def test_first_token_timeout_tries_another_endpoint(server, first):
    server.default = keyed(a=faults.silence)
    assert await said(two(server, timeouts={"first_token_seconds": 0.05}))
    assert asked(server) == ["a", "b"]


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_client_error_tries_no_other_endpoint(server, first, code):
    server.default = faults.status(code)
    with pytest.raises(Invalid):
        await said(two(server))
    assert asked(server) == ["a"]


async def test_content_filter_tries_no_other_endpoint(server, first):
    server.default = faults.status(400, "blocked by our content management policy")
    with pytest.raises(Invalid) as caught:
        await said(two(server))
    assert caught.value.code == "content_filter"
    assert asked(server) == ["a"]


async def test_no_other_endpoint_is_tried_after_the_first_token(server, first):
    server.default = keyed(a=faults.stopped(faults.CUT))
    with pytest.raises(Exception, match="broke the connection"):
        await said(two(server))
    assert asked(server) == ["a"]


async def test_backoff_happens_between_rounds(server, first, pauses):
    server.default = faults.status(503)
    with pytest.raises(Overloaded):
        await said(two(server, retries=2, breaker={"failures": 0}))
    assert asked(server) == ["a", "b"] * 3
    assert len(pauses) == 2


async def test_round_waits_for_the_shortest_retry_after(server, first, pauses):
    server.default = keyed(
        a=faults.status(429, retry_after=20), b=faults.status(429, retry_after=3)
    )
    with pytest.raises(RateLimited) as caught:
        await said(two(server, retries=1))
    assert 3 <= pauses[0] < 4
    # The other one has asked for more time than has gone by.
    assert asked(server) == ["a", "b", "b"]
    assert caught.value.retry_after_seconds == 3


async def test_permanent_failure_is_not_retried(server, first, pauses):
    server.default = keyed(a=faults.status(401), b=faults.status(503))
    with pytest.raises(Overloaded):
        await said(two(server, retries=2))
    assert asked(server) == ["a", "b", "b", "b"]


@pytest.mark.parametrize("dead", ["a", "b"])
async def test_transient_error_is_reported_before_permanent_one(server, first, dead):
    server.default = keyed(
        **{name: faults.status(401 if name == dead else 503) for name in SECRETS}
    )
    with pytest.raises(Overloaded):
        await said(two(server, retries=0))
    assert asked(server) == ["a", "b"]


async def test_unknown_model_is_not_retried_at_an_endpoint(server, first, pauses):
    server.default = keyed(a=faults.status(404), b=faults.status(503))
    with pytest.raises(Overloaded):
        await said(two(server, retries=2))
    assert asked(server) == ["a", "b", "b", "b"]


async def test_all_refused_keys_error_names_the_setting(server, first, pauses):
    server.default = faults.status(401)
    with pytest.raises(KeyRefused, match=r"providers\.acme\.endpoints\[0\]\.api_key"):
        await said(two(server))
    assert (asked(server), pauses) == (["a", "b"], [])


async def test_inherited_setting_is_named_at_its_place(server):
    endpoints = [{"api_key": SECRETS["a"]}]
    server.default = faults.web_page
    with pytest.raises(Exception, match=r"check providers\.acme\.base_url"):
        await said(server.provider(api_key=None, endpoints=endpoints))


async def test_errors_redact_keys_of_all_endpoints(server, first):
    said_by_it = f"not {SECRETS['b']}, nor {SECRETS['a']}"
    server.default = faults.status(400, said_by_it)
    with pytest.raises(Invalid) as caught:
        await said(two(server))
    assert "not [redacted], nor [redacted]" in str(caught.value)


async def test_total_timeout_covers_all_endpoints(server, first, go_by):
    server.default = faults.silence
    timeouts = {"first_token_seconds": 1000, "total_seconds": 1500}
    call = asyncio.create_task(said(two(server, timeouts=timeouts)))
    await server.until(lambda: asked(server) == ["a"])
    go_by(1000)
    await server.until(lambda: asked(server) == ["a", "b"])
    go_by(500)
    with pytest.raises(TimedOut) as caught:
        await call
    assert caught.value.wait == "total"
    assert asked(server) == ["a", "b"]
    await server.until(lambda: server.open == 0)


async def test_rate_limited_endpoint_is_chosen_last(server, first, clock):
    server.default = keyed(a=faults.status(429, retry_after=20))
    provider = two(server)
    for _ in range(3):
        await said(provider)
    assert asked(server) == ["a", "b", "b", "b"]
    clock.at += 20
    await said(provider)
    assert asked(server)[4:] == ["a", "b"]


# Breakers.


async def assert_fails(provider: ProviderConfig, times: int, error=Overloaded) -> None:
    for _ in range(times):
        with pytest.raises(error):
            await said(provider)


async def test_failing_provider_opens_its_circuit(server, clock):
    server.default = faults.status(500, "what a day")
    provider = one(server)
    await assert_fails(provider, 3)
    with pytest.raises(CircuitOpen, match=r"no requests for 5 s.*what a day") as caught:
        await said(provider)
    assert (caught.value.code, caught.value.provider) == (
        "provider_circuit_open",
        "acme",
    )
    assert caught.value.retry_after_seconds == 5
    assert len(server.requests) == 3
    assert state().state == "open"


async def test_call_that_opens_the_circuit_raises_the_failure(server, clock, pauses):
    server.default = faults.status(500)
    with pytest.raises(Overloaded) as caught:
        await said(one(server, retries=10))
    assert caught.value.code == "provider_overloaded"
    assert (len(server.requests), len(pauses)) == (3, 2)


async def test_successful_trial_call_closes_the_circuit(server, clock, caplog):
    provider = one(server)
    server.then(*[faults.status(500)] * 3)
    await assert_fails(provider, 3)
    clock.at += 5
    assert state().state == "trying"
    with caplog.at_level(logging.WARNING):
        await said(provider)
    assert "provider 'acme': circuit breaker closed" in caplog.text
    assert state() == circuits.State("acme", "", "closed", None, 0, None)
    await said(provider)


async def test_open_time_doubles_up_to_a_minute(server, clock):
    server.default = faults.status(500)
    provider = one(server)
    await assert_fails(provider, 3)
    waits = []
    for _ in range(6):
        with pytest.raises(CircuitOpen) as caught:
            await said(provider)
        waits.append(caught.value.retry_after_seconds)
        clock.at += caught.value.retry_after_seconds or 0
        await assert_fails(provider, 1)
    assert waits == [5, 10, 20, 40, 60, 60]
    assert len(server.requests) == 3 + 6


async def test_half_open_circuit_allows_one_call(server, clock):
    provider = one(server)
    server.then(*[faults.status(500)] * 3, faults.silence)
    await assert_fails(provider, 3)
    clock.at += 5
    trying = asyncio.create_task(said(provider))
    await server.until(lambda: len(server.requests) == 4)
    await assert_fails(provider, 1, CircuitOpen)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    # Which says nothing: the next one tries.
    await said(provider)
    assert state().state == "closed"


async def test_hanging_trial_call_does_not_block_forever(server, clock):
    provider = one(server)
    server.then(*[faults.status(500)] * 3, faults.silence)
    await assert_fails(provider, 3)
    clock.at += 5
    trying = asyncio.create_task(said(provider))
    await server.until(lambda: len(server.requests) == 4)
    clock.at += 5
    await said(provider)
    trying.cancel()
    await asyncio.gather(trying, return_exceptions=True)
    assert state().state == "closed"


async def test_circuit_stays_open_for_retry_after(server, clock):
    server.default = faults.status(503, retry_after=25)
    provider = one(server)
    await assert_fails(provider, 3)
    with pytest.raises(CircuitOpen) as caught:
        await said(provider)
    assert caught.value.retry_after_seconds == 25


async def test_circuit_open_time_is_limited(server, clock):
    server.default = faults.status(503, retry_after=1_000_000)
    await assert_fails(one(server), 3)
    with pytest.raises(CircuitOpen) as caught:
        await said(one(server))
    assert caught.value.retry_after_seconds == 300


async def test_success_resets_the_failure_count(server, clock):
    provider = one(server)
    server.then(*[faults.status(500)] * 2, faults.reply(), *[faults.status(500)] * 2)
    await assert_fails(provider, 2)
    await said(provider)
    await assert_fails(provider, 2)
    await said(provider)


async def test_short_failures_survived_by_retries_open_nothing(server, clock):
    provider = one(server, breaker={"failures": 3, "after_seconds": 2})
    server.default = faults.status(500)
    await assert_fails(provider, 10)
    clock.at += 2
    await assert_fails(provider, 1)
    await assert_fails(provider, 1, CircuitOpen)


async def test_burst_of_parallel_failures_opens_nothing(server, pauses):
    """A hundred calls under way in the same bad moment are all served by retrying."""
    provider = server.provider(retries=10)
    server.then(*[faults.status(503)] * 100)
    assert all(await asyncio.gather(*(said(provider) for _ in range(100))))
    assert state().state == "closed"


@pytest.mark.parametrize(
    ("code", "error"),
    [(429, RateLimited), (401, KeyRefused), (402, OutOfCredit), (404, ModelUnknown)],
)
async def test_refusals_do_not_open_a_single_endpoints_circuit(
    server, clock, code, error
):
    server.default = faults.status(code)
    await assert_fails(one(server), 20, error)
    assert len(server.requests) == 20
    assert state().state == "closed"


async def test_rate_limits_do_not_open_a_single_endpoints_circuit(
    server, clock, pauses
):
    """No worse than without a breaker: as many tries, and none refused by us."""
    server.default = faults.status(429, retry_after=1)
    provider = one(server, retries=2)
    await assert_fails(provider, 10, RateLimited)
    assert (len(server.requests), len(pauses)) == (30, 20)
    server.default = faults.reply()
    await said(provider)


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
    provider = one(server, timeouts={"first_token_seconds": 0.02})
    await assert_fails(provider, 3, error)
    await assert_fails(provider, 1, CircuitOpen)


async def test_late_failures_and_cancelled_calls_do_not_count(server, clock):
    provider = one(server)
    server.default = faults.stopped(faults.CUT)
    await assert_fails(provider, 5, Exception)
    server.default = faults.silence
    for number in range(5):
        task = asyncio.create_task(said(provider))
        await server.until(lambda so_far=number: len(server.requests) > 5 + so_far)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (state().state, state().failures) == ("closed", 0)


async def test_endpoint_with_refused_key_is_skipped_and_logged_once(
    server, first, clock, caplog
):
    server.default = keyed(a=faults.status(401))
    provider = two(server)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await said(provider)
    assert asked(server) == ["a", *"bbbbb"]
    of_it = [
        record for record in caplog.records if record.name == circuit_breaker.__name__
    ]
    (warning,) = [record.getMessage() for record in of_it]
    assert "provider 'acme', endpoint 'a': circuit breaker open for 60 s" in warning
    assert "providers.acme.endpoints[0].api_key" in warning
    assert SECRETS["a"] not in warning
    clock.at += 60
    await said(provider)
    assert asked(server)[6:] == ["a", "b"]
    clock.at += 119
    await said(provider)
    assert asked(server)[8:] == ["b"]


async def test_refused_keys_have_no_retry_after(server, clock):
    server.default = faults.status(402)
    await assert_fails(two(server), 1, OutOfCredit)
    with pytest.raises(CircuitOpen, match="no credit or quota left") as caught:
        await said(two(server))
    assert caught.value.retry_after_seconds is None


async def test_403_does_not_disable_the_key(server, first, clock):
    server.default = keyed(a=faults.status(403))
    await said(two(server))
    await said(two(server))
    assert asked(server) == ["a", "b", "a", "b"]


async def test_changed_key_resets_only_its_endpoint(server, first, clock):
    server.default = faults.status(401)
    await assert_fails(two(server), 1, KeyRefused)
    server.default = faults.reply()
    edited = two(server).model_dump()
    endpoints = [
        {"name": "a", "api_key": SECRETS["a"]},
        {"name": "b", "api_key": "sk-another"},
    ]
    await said(ProviderConfig.model_validate({**edited, "endpoints": endpoints}))
    assert server.requests[-1].key == "sk-another"
    assert (state("a").state, state("b").state) == ("open", "closed")


async def test_error_mentions_skipped_endpoints(server, first, clock):
    # A retry may go to one alone, which others find down meanwhile.
    server.default = keyed(a=faults.status(401))
    provider = two(server)
    await said(provider)
    told = endpoint_pool.find_pool("acme", provider).circuit_open_error()
    assert "refused this server's key" in told.message
    assert "providers.acme" in told.detail
    assert "providers.acme" not in told.message


async def test_breaker_can_be_disabled(server, clock):
    server.default = faults.status(500)
    await assert_fails(one(server), 3)
    await assert_fails(one(server, breaker={"failures": 0}), 20)
    assert len(server.requests) == 23


async def test_endpoint_states_are_reported(server, first, clock):
    server.default = keyed(a=faults.status(401))
    await said(two(server))
    dead, well = circuits.states()
    assert (dead.provider, dead.endpoint, dead.state) == ("acme", "a", "open")
    assert dead.open_until is not None
    assert "refused this server's key" in (dead.last_error or "")
    assert (well.endpoint, well.state, well.last_error) == ("b", "closed", None)


async def test_circuit_states_are_limited(server):
    for number in range(endpoint_pool.MAX_POOLS + 10):
        endpoint_pool.find_pool(f"p{number}", server.provider())
    assert len(circuits.states()) == endpoint_pool.MAX_POOLS


async def test_call_with_open_circuits_sends_nothing(server, clock):
    server.default = faults.status(500)
    await assert_fails(one(server), 3)
    attempts: list[Attempt] = []
    with pytest.raises(CircuitOpen):
        await said(one(server, retries=5), attempts=attempts)
    assert attempts == []


async def test_single_named_endpoint_has_its_name_in_attempts(server):
    attempts: list[Attempt] = []
    provider = server.provider(endpoints=[{"name": "main"}])
    await said(provider, attempts=attempts)
    assert [attempt.endpoint for attempt in attempts] == ["main"]


async def test_embedding_failures_do_not_open_the_chat_circuit(server, clock):
    source = client.ProviderSource("acme", one(server), "the-model")
    server.default = faults.status(500)
    for _ in range(5):
        with pytest.raises(Overloaded):
            await client.post_json(
                source,
                f"{source.provider.base_url}/embeddings",
                {},
                lambda payload, _: payload,
                headers={},
            )
    server.default = faults.reply()
    assert await said(source.provider)
