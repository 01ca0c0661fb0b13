"""Asks an endpoint whose circuit is open whether it answers again.

So the circuit closes without a user's request that has to find out.
"""

import asyncio

import orjson

from core.errors import CoulisseError
from core.messages import Message
from providers.config import BreakerConfig
from providers.model_request import ModelRequest
from providers.resilience import circuit_breaker
from providers.resilience.error_mapping import TRANSPORT_ERRORS
from providers.transport import endpoint_pool, http_request
from providers.transport.endpoint_pool import Endpoint, EndpointPool

TIMEOUT_SECONDS = 5.0
OVERLOADED = 429

_running: set[asyncio.Task[None]] = set()


def start(pool: EndpointPool, endpoint: Endpoint) -> None:
    """Ask an endpoint until its circuit is closed, unless something asks already."""
    circuit, breaker = endpoint.circuit, pool.provider.breaker
    now = circuit_breaker.now()
    if breaker.probe == "off" or circuit.open_until is None or not breaker.failures:
        return
    if not circuit.is_recoverable or now < circuit.probed_until:
        return
    if circuit not in endpoint_pool.find_circuits(circuit.shared_key):
        return  # An edit has removed the endpoint.
    # Its own wish to be left alone comes first.
    pause = max(breaker.open_seconds, circuit.paused_until - now)
    circuit.probed_until = now + pause + 2 * TIMEOUT_SECONDS
    asyncio.get_running_loop().call_later(pause, _begin, pool, endpoint)


def _begin(pool: EndpointPool, endpoint: Endpoint) -> None:
    task = asyncio.create_task(_probe(pool, endpoint))
    _running.add(task)
    task.add_done_callback(_running.discard)


async def _probe(pool: EndpointPool, endpoint: Endpoint) -> None:
    circuit, breaker = endpoint.circuit, pool.provider.breaker
    if circuit.open_until is not None and await _answers(endpoint, breaker, pool.model):
        circuit.recover(breaker, is_proven=breaker.probe == "completion")
    elif circuit.open_until is not None:
        # For processes that have started since it opened.
        circuit_breaker.announce(circuit)
    circuit.probed_until = 0.0
    start(pool, endpoint)


async def _answers(endpoint: Endpoint, breaker: BreakerConfig, model: str) -> bool:
    """Return whether an endpoint answers: with its models, or with one token."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            if breaker.probe == "models":
                status = await http_request.fetch_status(
                    "GET", endpoint.models_url, endpoint.headers
                )
                # Servers without that address answer, too.
                return status < 500 and status != OVERLOADED
            hi = [Message("user", "Hi")]
            limit = {"max_tokens": 1}
            request = ModelRequest(model, hi, parameters=limit, stream=False)
            body = orjson.dumps(endpoint.wire.body(request))
            status = await http_request.fetch_status(
                "POST", endpoint.url, endpoint.headers, body
            )
            return status == 200
    except (*TRANSPORT_ERRORS, CoulisseError):
        return False
