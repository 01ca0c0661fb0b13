"""How the endpoints do that this process has called."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from providers.resilience import circuit_breaker
from providers.transport import endpoint_pool
from providers.transport.endpoint_pool import Endpoint


@dataclass(frozen=True, slots=True)
class State:
    """How an endpoint does, as this process knows it."""

    provider: str
    endpoint: str
    """"" where the provider has one."""
    state: Literal["closed", "open", "trying"]
    """Whether calls go there; `trying`: the next one finds out."""
    open_until: datetime | None
    """When it is tried again."""
    failures: int
    """In a row."""
    last_error: str | None
    """Since it last answered."""


def states() -> list[State]:
    """Return how every endpoint does that this process has called."""
    return [
        _state(known.name, each)
        for known in [*endpoint_pool._pools.values()]
        for each in known.endpoints
    ]


def _state(provider: str, endpoint: Endpoint) -> State:
    circuit, at = endpoint.circuit, circuit_breaker.now()
    until = None
    if circuit.open_until is not None:
        until = datetime.now(UTC) + timedelta(seconds=circuit.open_until - at)
    state: Literal["closed", "open", "trying"] = "closed"
    if until is not None:
        state = "trying" if circuit.admits(at) else "open"
    return State(
        provider, endpoint.name, state, until, circuit.failures, circuit.last_error
    )
