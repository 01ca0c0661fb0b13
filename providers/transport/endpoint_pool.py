"""The endpoints of a provider, and the choice of one for a call."""

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence

from django.conf import settings
from pydantic import SecretStr

from core.errors import public_text
from providers import registry
from providers.config import ProviderConfig, endpoint_name
from providers.errors import CircuitOpen
from providers.resilience import circuit_breaker
from providers.resilience.circuit_breaker import Circuit
from providers.wires.base import Wire

LATENCY_HALF_LIFE_SECONDS = 10.0
MIN_LATENCY_SECONDS = 0.001
"""Also of endpoints without a known latency, so that their waiting calls count."""
FAILURE_SECONDS = 10.0
"""What a failed call adds to the latency."""
MAX_POOLS = 1_000
"""The oldest are dropped, such as those of an earlier YAML."""


class Endpoint:
    """One key at one address."""

    def __init__(
        self,
        name: str,
        provider: ProviderConfig,
        circuit: Circuit,
        *,
        number: int | None,
        weight: float,
    ) -> None:
        kind = registry.kind_of(provider)
        self.name = name
        """Its name in records; "" for a single endpoint."""
        self.number = number
        """Its index under `endpoints:`; None without that list."""
        self.weight = weight
        """Its share of the calls, relative to the others."""
        self.waiting = 0
        """The calls whose reply has not begun."""
        self._latency = 0.0
        self._latency_at = 0.0
        self.provider = provider
        """The entry as if this endpoint were the only one."""
        self.circuit = circuit
        self.wire: Wire = kind.wire
        key = None if provider.api_key is None else provider.api_key.get_secret_value()
        self.headers = build_headers(provider, kind.wire.headers(key))
        # The address of the local model is known only after its start.
        self._url = (
            None if provider.kind == "local" else registry.provider_url(provider)
        )

    @property
    def url(self) -> str:
        """Return the URL for calls; raise `LocalModelDown` without a local model."""
        return self._url or registry.provider_url(self.provider)

    def add_latency(self, seconds: float) -> None:
        """Record how long a reply took to begin."""
        at = circuit_breaker.now()
        latency = self._latency_now(at)
        # A slow one counts at once, a fast one gradually.
        self._latency = max(seconds, (latency + seconds) / 2)
        self._latency_at = at

    def add_failure(self, seconds: float, error: BaseException) -> None:
        """Record a call without a reply, which took at least so long.

        A quick refusal must not make the endpoint the fastest.
        """
        if isinstance(error, Exception):
            seconds += FAILURE_SECONDS
        self.add_latency(max(seconds, self._latency_now(circuit_breaker.now())))

    def expected_wait(self, at: float) -> float:
        """Return how long a call would wait, relative to other endpoints."""
        latency = self._latency_now(at) + MIN_LATENCY_SECONDS
        return latency * (self.waiting + 1) / self.weight

    def _latency_now(self, at: float) -> float:
        """Return the latency, which is forgotten by and by: it may have changed."""
        age = at - self._latency_at
        return self._latency * math.exp2(-age / LATENCY_HALF_LIFE_SECONDS)

    @property
    def models_url(self) -> str:
        """Return the address of its list of models."""
        return self.url.removesuffix(self.wire.path) + self.wire.models_path


def build_headers(provider: ProviderConfig, wire: Mapping[str, str]) -> dict[str, str]:
    """Return a call's headers: ours, the wire's and the YAML's."""
    return {"Content-Type": "application/json", **wire, **_own_headers(provider)}


def _own_headers(provider: ProviderConfig) -> dict[str, str]:
    headers = provider.headers.items()
    return {name: secret.get_secret_value() for name, secret in headers}


class EndpointPool:
    """The endpoints of one entry under `providers:`, for one model.

    A model that fails says nothing about the others.
    """

    def __init__(
        self,
        name: str,
        provider: ProviderConfig,
        previous: "EndpointPool | None" = None,
        model: str = "",
    ) -> None:
        self.name = name
        self.model = model
        self.provider = provider
        previous_circuits = previous.circuits if previous is not None else {}
        self.circuits: dict[object, Circuit] = {}
        """By endpoint settings, so that an edit keeps the circuits of unchanged
        endpoints."""
        self.endpoints = [
            self._endpoint(number, entry, previous_circuits)
            for number, entry in enumerate(provider.per_endpoint())
        ]

    def _endpoint(
        self,
        number: int,
        entry: ProviderConfig,
        previous_circuits: Mapping[object, Circuit],
    ) -> Endpoint:
        if not self.provider.endpoints:
            circuit = self._circuit(entry, "", previous_circuits)
            return Endpoint("", entry, circuit, number=None, weight=1.0)
        configured = self.provider.endpoints[number]
        name = endpoint_name(number, configured)
        circuit = self._circuit(entry, f", endpoint '{name}'", previous_circuits)
        return Endpoint(name, entry, circuit, number=number, weight=configured.weight)

    @property
    def has_single_endpoint(self) -> bool:
        return len(self.endpoints) == 1

    def _circuit(
        self,
        entry: ProviderConfig,
        suffix: str,
        previous_circuits: Mapping[object, Circuit],
    ) -> Circuit:
        headers = sorted(_own_headers(entry).items())
        settings_key = (entry.kind, entry.base_url, entry.api_key, *headers)
        circuit = self.circuits.get(settings_key)
        # A disabled breaker has no state.
        if circuit is None and self.provider.breaker.failures:
            circuit = previous_circuits.get(settings_key)
        if circuit is None:
            model = f", model '{self.model}'" if self.model else ""
            label = f"provider '{self.name}'{model}{suffix}"
            circuit = Circuit(label)
        if self.provider.breaker.failures and not circuit.shared_key:
            circuit.shared_key = _shared_key(self.name, self.model, settings_key)
        self.circuits[settings_key] = circuit
        return circuit

    def choose(self, candidates: Sequence[Endpoint]) -> Endpoint | None:
        """Return an available endpoint, by weight or latency; or None.

        Endpoints that asked for a wait are chosen last, the one that is ready soonest
        first.
        """
        if len(candidates) == 1 and candidates[0].circuit.open_until is None:
            return candidates[0]
        at = circuit_breaker.now()
        admitting = [each for each in candidates if each.circuit.admits(at)]
        ready = [each for each in admitting if each.circuit.paused_until <= at]
        if ready and self.provider.balance == "latency":
            return _choose_fastest(ready, at)
        if ready:
            return _choose_weighted(ready)
        return min(admitting, key=lambda each: each.circuit.paused_until, default=None)

    def check_open(self) -> None:
        """Raise `CircuitOpen` if a call would reach no endpoint."""
        at = circuit_breaker.now()
        if not any(each.circuit.admits(at) for each in self.endpoints):
            raise self.circuit_open_error()

    def circuit_open_error(self) -> CircuitOpen:
        """Return the error for a call if all circuits are open."""
        at = circuit_breaker.now()
        first = min(
            (each.circuit for each in self.endpoints),
            # A closed one was already tried in this call.
            key=lambda circuit: circuit.open_until or math.inf,
        )
        seconds = max(0.0, (first.open_until or at) - at)
        return CircuitOpen(
            f"provider '{self.name}' failed repeatedly: no requests for "
            f"{seconds:.0f} s; last error: {public_text(first.last_error or '')}",
            provider=self.name,
            detail=f"last error: {first.last_error}",
            # Waiting does not help against a refused key or spent credit.
            retry_after_seconds=seconds if first.is_recoverable else None,
        )


def _shared_key(name: str, model: str, settings_key: Sequence[object]) -> str:
    """Return an opaque name of a circuit that is equal in all processes."""
    secrets = [
        each.get_secret_value() if isinstance(each, SecretStr) else each
        for each in settings_key
    ]
    text = repr((name, model, secrets))
    key = settings.SECRET_KEY.encode()[: hashlib.blake2b.MAX_KEY_SIZE]
    return hashlib.blake2b(text.encode(), digest_size=16, key=key).hexdigest()


def find_circuits(shared_key: str) -> list[Circuit]:
    """Return the circuits that other processes know by a key; none for ""."""
    if not shared_key:
        return []
    circuits = (each for pool in [*_pools.values()] for each in pool.circuits.values())
    return [circuit for circuit in circuits if circuit.shared_key == shared_key]


def _choose_weighted(ready: Sequence[Endpoint]) -> Endpoint:
    weights = [each.weight for each in ready]
    (chosen,) = random.choices(ready, weights)  # noqa: S311 (no secret depends on it)
    return chosen


def _choose_fastest(ready: Sequence[Endpoint], at: float) -> Endpoint:
    """Return the better one of two random endpoints.

    The best of all would be flooded by all processes at once.
    """
    drawn = random.sample(ready, min(2, len(ready)))
    return min(drawn, key=lambda each: each.expected_wait(at))


_pools: dict[tuple[str, str], EndpointPool] = {}
"""By the names of provider and model, the newest last."""


def find_pool(name: str, provider: ProviderConfig, model: str = "") -> EndpointPool:
    """Return the endpoints of an entry, with their circuits for a model."""
    key = name, model
    pool = _pools.get(key)
    if pool is None or pool.provider is not provider:
        pool = EndpointPool(name, provider, _pools.pop(key, None), model)
        _pools[key] = pool
        # A copy: other threads may change it meanwhile.
        for oldest in [*_pools][:-MAX_POOLS]:
            _pools.pop(oldest, None)
    return pool


def open_circuits() -> Iterator[tuple[str, str, str]]:
    """Yield provider, model and endpoint of each circuit that refuses calls now."""
    at = circuit_breaker.now()
    for pool in [*_pools.values()]:
        for endpoint in pool.endpoints:
            if not endpoint.circuit.admits(at):
                yield pool.name, pool.model, endpoint.name
