"""Processes tell each other which circuits open and close."""

import asyncio
import contextlib

import orjson
import pytest
import redis.asyncio

from providers.errors import CircuitOpen, Overloaded
from providers.resilience import circuit_breaker
from providers.transport import circuit_sharing, endpoint_pool
from tests.providers import faults
from tests.providers.conftest import collect_events
from tests.providers.endpoints.endpoint_states import SECRETS, single_endpoint

SLOW = {"after_seconds": 0, "failures": 3, "open_seconds": 60, "max_open_seconds": 60}


class Observer:
    """What another process receives and sends."""

    def __init__(self, client, subscription) -> None:
        self.client = client
        self._subscription = subscription

    async def receive(self) -> dict:
        async with asyncio.timeout(30):
            while not (message := await self._subscription.get_message(timeout=1)):
                pass
        return orjson.loads(message["data"])

    async def send(self, message: dict) -> None:
        """Send as another process, once this one listens."""
        sent = orjson.dumps({**message, "process": "another"})
        async with asyncio.timeout(30):
            listeners = 0
            while listeners < 2:
                listeners = await self.client.publish(circuit_sharing.CHANNEL, sent)


@pytest.fixture
async def other(broker):
    sharing = asyncio.create_task(circuit_sharing.run())
    async with (
        redis.asyncio.Redis.from_url(broker) as client,
        client.pubsub(ignore_subscribe_messages=True) as subscription,
    ):
        await subscription.subscribe(circuit_sharing.CHANNEL)
        yield Observer(client, subscription)
    sharing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sharing


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  no event reports it
            await asyncio.sleep(0.01)


def only_circuit(provider) -> circuit_breaker.Circuit:
    return endpoint_pool.find_pool("acme", provider, "the-model").endpoints[0].circuit


async def test_what_opens_and_closes_is_announced(server, other):
    provider = single_endpoint(server, breaker={**SLOW, "probe": "off"})
    server.default = faults.status(500)
    for _ in range(3):
        with pytest.raises(Overloaded):
            await collect_events(provider)
    opened = await other.receive()
    assert opened["is_open"]
    assert 50 < opened["seconds"] <= 60
    assert opened["is_recoverable"]
    assert not any(secret in str(opened) for secret in SECRETS.values())
    circuit = only_circuit(provider)
    assert opened["circuit"] == circuit.shared_key
    circuit.succeed()
    assert not (await other.receive())["is_open"]


async def test_circuit_of_another_process_is_followed(server, other):
    provider = single_endpoint(server, breaker=SLOW)
    circuit = only_circuit(provider)
    opened = {"circuit": circuit.shared_key, "is_open": True, "seconds": 60.0}
    failure = {"error": "it is down", "is_recoverable": True}
    await other.send({**opened, **failure})
    await until(lambda: circuit.open_until is not None)
    with pytest.raises(CircuitOpen, match="it is down"):
        await collect_events(provider)
    assert not server.requests
    await other.send({**opened, **failure, "is_open": False, "seconds": 0.0})
    await until(lambda: circuit.open_until is None)
    server.default = faults.reply("H")
    assert await collect_events(provider)


async def test_other_circuits_are_not_concerned(server, other):
    provider = single_endpoint(server, breaker=SLOW)
    circuit = only_circuit(provider)
    others = {"error": "down", "is_recoverable": True, "is_open": True, "seconds": 9.0}
    await other.send({**others, "circuit": "another"})
    elsewhere = endpoint_pool.find_pool("acme", provider, "another-model")
    assert elsewhere.endpoints[0].circuit.shared_key != circuit.shared_key
    await other.send({**others, "circuit": elsewhere.endpoints[0].circuit.shared_key})
    await until(lambda: elsewhere.endpoints[0].circuit.open_until is not None)
    assert circuit.open_until is None


@pytest.mark.parametrize("data", [b"no JSON", b"[]", b'{"process": "x"}'])
async def test_messages_of_other_versions_are_ignored(server, other, data):
    circuit = only_circuit(single_endpoint(server, breaker=SLOW))
    opened = {"circuit": circuit.shared_key, "is_open": True, "seconds": 60.0}
    async with asyncio.timeout(30):
        while await other.client.publish(circuit_sharing.CHANNEL, data) < 2:
            pass
    await other.send({**opened, "error": "down", "is_recoverable": True})
    await until(lambda: circuit.open_until is not None)


async def test_circuit_without_breaker_is_not_shared(server, other):
    off = {"failures": 0}
    without = only_circuit(single_endpoint(server, breaker=off))
    assert not without.shared_key
    assert endpoint_pool.find_circuits("") == []
    on = single_endpoint(server, breaker=SLOW)
    assert only_circuit(on).shared_key


async def test_followed_circuit_is_tried_when_its_time_is_over(server, clock):
    provider = single_endpoint(server, breaker={**SLOW, "probe": "off"})
    circuit = only_circuit(provider)
    circuit.follow(60.0, "down", is_recoverable=True)
    server.default = faults.status(500)
    with pytest.raises(CircuitOpen):
        await collect_events(provider)
    clock.at += 60
    with pytest.raises(Overloaded):
        await collect_events(provider)
    with pytest.raises(CircuitOpen):
        await collect_events(provider)
    assert len(server.requests) == 1


async def test_calls_go_on_without_redis(server, tmp_path, settings):
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    sharing = asyncio.create_task(circuit_sharing.run())
    provider = single_endpoint(server, breaker={**SLOW, "probe": "off"})
    server.default = faults.status(500)
    for _ in range(3):
        with pytest.raises(Overloaded):
            await collect_events(provider)
    with pytest.raises(CircuitOpen):
        await collect_events(provider)
    assert not sharing.done()
    sharing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sharing
