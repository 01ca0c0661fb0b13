"""Fixtures: a faulty server, the breakers' clock, and the choice of endpoints."""

from collections.abc import Iterator

import pytest

from providers.resilience import circuit_breaker
from providers.transport import endpoint_pool
from tests.providers.broker import run_broker
from tests.providers.endpoints.endpoint_states import Clock
from tests.providers.fault_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def first_endpoint(monkeypatch) -> None:
    """Choose the first available endpoint."""
    monkeypatch.setattr(
        endpoint_pool.random, "choices", lambda ready, weights: ready[:1]
    )


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(circuit_breaker, "now", clock)
    return clock


@pytest.fixture
def broker(tmp_path, settings) -> Iterator[str]:
    """The URL of a private Valkey, which the settings name."""
    with run_broker(tmp_path) as url:
        settings.REDIS_URL = url
        yield url
