"""Fixtures of these tests."""

import time
from collections.abc import Iterator

import pytest

from config import live
from providers.resilience import backoff
from testing.scripted_provider import FakeProvider
from tests.gateway.calls import (
    body,
    post,
)
from tests.gateway.limits.provider_faults.fault_cases import LIMITED, Answer, Row, Setup
from tests.providers import faults
from tests.providers.fault_server import FaultServer


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    async def pause(seconds: float) -> None:
        """Return at once."""

    monkeypatch.setattr(backoff, "sleep", pause)


@pytest.fixture(scope="module")
def stage() -> Iterator[Setup]:
    with (
        FaultServer() as broken,
        FaultServer(secure=True) as untrusted,
        FakeProvider() as spare,
        faults.refused_port() as refused,
        faults.deaf_port() as deaf,
        faults.names(),
    ):
        addresses = {
            "broken": f"{broken.root_url}/v1",
            "deaf": f"http://127.0.0.1:{deaf}/v1",
            "refused": f"http://127.0.0.1:{refused}/v1",
            "unknown": faults.NOWHERE,
            "untrusted": f"{untrusted.root_url}/v1",
        }
        yield Setup(broken, spare, addresses)


@pytest.fixture
def broken(stage):
    """The server of the failing provider."""
    stage.broken.default = faults.reply()
    stage.broken.requests.clear()
    return stage.broken


@pytest.fixture
def spare(stage):
    """The fallback provider."""
    stage.spare.requests.clear()
    return stage.spare


@pytest.fixture
def call_agent(running, stage, broken, spare, user):
    """Return a function that calls an agent while the provider has a fault."""

    def call_agent(
        row: Row, kind: str, agent: str, *, stream: bool, user_name: str = user
    ) -> "Answer":
        if row.do is not None:
            broken.default = row.do
        live.set_current(stage.config(row, kind, row.stream if stream else row.whole))
        request = body(user_name, "hi", agent=agent, stream=stream, **LIMITED)
        started = time.monotonic()
        return Answer(post(running, request), time.monotonic() - started)

    return call_agent
