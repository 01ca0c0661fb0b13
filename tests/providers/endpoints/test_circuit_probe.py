"""An open circuit closes without a user's request, and concerns one model."""

from dataclasses import replace

import pytest

from providers import client
from providers.config import FALLBACK_WAIT_SECONDS, SLOW_FIRST_TOKEN_SECONDS
from providers.errors import CircuitOpen, Overloaded, TimedOut
from providers.resilience import error_mapping, timeouts
from providers.transport import endpoint_pool
from tests.providers import faults
from tests.providers.conftest import collect_events, model_request
from tests.providers.endpoints.endpoint_states import single_endpoint

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
FAST = {"after_seconds": 0, "failures": 3, "open_seconds": 0.02}
MODELS = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def open_circuit(server, provider) -> endpoint_pool.Endpoint:
    server.default = faults.status(500)
    for _ in range(3):
        with pytest.raises(Overloaded):
            await collect_events(provider)
    endpoint = endpoint_pool.find_pool("acme", provider, "the-model").endpoints[0]
    assert endpoint.circuit.open_until is not None
    return endpoint


@KINDS
async def test_models_close_the_circuit_until_the_next_failure(server, kind):
    provider = single_endpoint(server, kind=kind, breaker=FAST)
    endpoint = await open_circuit(server, provider)
    server.default = lambda request: [MODELS]
    await server.until(lambda: endpoint.circuit.open_until is None)
    assert server.requests[-1].path == "/v1/models"
    assert server.requests[-1].key
    server.default = faults.status(500)
    with pytest.raises(Overloaded):
        await collect_events(provider)
    with pytest.raises(CircuitOpen):
        await collect_events(provider)


@KINDS
async def test_one_token_closes_the_circuit(server, kind):
    breaker = {**FAST, "probe": "completion"}
    provider = single_endpoint(server, kind=kind, breaker=breaker)
    endpoint = await open_circuit(server, provider)
    asked = len(server.requests)
    await server.until(lambda: len(server.requests) > asked)
    assert endpoint.circuit.open_until is not None
    server.default = faults.reply("H")
    await server.until(lambda: endpoint.circuit.open_until is None)
    assert server.requests[-1].body["max_tokens"] == 1
    assert endpoint.circuit.failures == 0


async def test_probes_can_be_switched_off(server):
    provider = single_endpoint(server, breaker={**FAST, "probe": "off"})
    endpoint = await open_circuit(server, provider)
    assert endpoint.circuit.probed_until == 0


async def test_circuit_concerns_one_model(server, clock):
    provider = single_endpoint(server)
    await open_circuit(server, provider)
    server.default = faults.reply("Hello")
    other = replace(model_request(), model="another")
    events = [event async for event in client.run("acme", provider, other)]
    assert events[-1].reason == "stop"
    with pytest.raises(CircuitOpen):
        await collect_events(provider)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 30),
        ({"has_fallback": True}, FALLBACK_WAIT_SECONDS),
        ({"is_slow": True, "has_fallback": True}, SLOW_FIRST_TOKEN_SECONDS),
        ({"stream": False}, 600),
    ],
    ids=["alone", "fallback", "slow", "whole"],
)
async def test_default_timeouts(server, fields, seconds):
    source = error_mapping.ProviderSource("acme", server.provider())
    deadline = timeouts.CallDeadline(source, **{"stream": True, **fields})
    assert deadline.next_wait_seconds == seconds
    deadline.received = True
    assert deadline.next_wait_seconds == (10 if "has_fallback" in fields else 30)


async def test_whole_reply_that_stalls_is_given_up(server):
    provider = single_endpoint(server, timeouts={"idle_seconds": 0.1})
    server.default = faults.stopped(faults.HANG)
    with pytest.raises(TimedOut, match="to continue its reply"):
        await collect_events(provider, model_request(stream=False))
