"""Providers with endpoints, the keys they use, and the states of their circuits."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from providers.config import ProviderConfig
from providers.resilience import circuit_breaker
from providers.transport import endpoint_pool
from providers.transport.endpoint_pool import Endpoint
from tests.providers import faults
from tests.providers.fault_server import FaultServer
from tests.providers.faults import Fault

SECRETS = {"a": "sk-key-of-endpoint-a", "b": "sk-key-of-endpoint-b"}


@dataclass(frozen=True, slots=True)
class EndpointState:
    """The state of an endpoint in this process."""

    provider: str
    endpoint: str
    """empty for a single endpoint."""
    state: Literal["closed", "open", "trying"]
    """`trying`: the next call is the probe."""
    open_until: datetime | None
    """The time of the next probe."""
    failures: int
    """Consecutive failures."""
    last_error: str | None
    """The last error since the last reply."""


class Clock:
    """The clock of the breakers, set by tests."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def two_endpoints(server: FaultServer, **fields) -> ProviderConfig:
    """Return a provider with two keys, a and b."""
    endpoints = [{"name": name, "api_key": key} for name, key in SECRETS.items()]
    fields.setdefault("breaker", {"after_seconds": 0})
    return server.provider(api_key=None, endpoints=endpoints, **fields)


def single_endpoint(server: FaultServer, **fields) -> ProviderConfig:
    fields.setdefault("breaker", {"after_seconds": 0, "failures": 3})
    fields.setdefault("retries", 0)
    return server.provider(**fields)


def by_key_name(**by_name: Fault) -> Fault:
    """Return a fault for each key; other keys get a valid reply."""
    by_key = {SECRETS[name]: fault for name, fault in by_name.items()}
    return lambda request: by_key.get(request.key, faults.reply())(request)


def used_keys(server: FaultServer) -> list[str]:
    """Return the names of the keys of the requests, in order."""
    names = {key: name for name, key in SECRETS.items()}
    return [names[request.key] for request in server.requests]


def endpoint_state(endpoint: str = "") -> EndpointState:
    (found,) = (each for each in endpoint_states() if each.endpoint == endpoint)
    return found


def endpoint_states() -> list[EndpointState]:
    """Return the states of all endpoints that this process has called."""
    return [
        _endpoint_state(pool.name, each)
        for pool in [*endpoint_pool._pools.values()]
        for each in pool.endpoints
    ]


def _endpoint_state(provider: str, endpoint: Endpoint) -> EndpointState:
    circuit, at = endpoint.circuit, circuit_breaker.now()
    open_until = None
    if circuit.open_until is not None:
        open_until = datetime.now(UTC) + timedelta(seconds=circuit.open_until - at)
    state: Literal["closed", "open", "trying"] = "closed"
    if open_until is not None:
        state = "trying" if circuit.admits(at) else "open"
    return EndpointState(
        provider, endpoint.name, state, open_until, circuit.failures, circuit.last_error
    )
