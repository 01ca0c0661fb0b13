"""Fixtures: HTTP clients, clients of the memory API, and a check for open tasks."""

import asyncio
from collections.abc import Callable, Iterator

import httpx2
import pytest

from providers import client as provider_client
from studio.server import event_loop_bridge
from tests.gateway.calls import until
from tests.gateway.memory_client import MemoryClient

SERVING = ("Server.", "LifespanOn.", "serve.", "uvicorn", "Reporter.", "Watchers.")
"""Prefixes of the names of tasks that serve requests or publish live turns."""


@pytest.fixture
def http(server: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server, timeout=60, verify=False) as client:
        yield client


@pytest.fixture
def memory_client(http: httpx2.Client, user: str) -> MemoryClient:
    return MemoryClient(http, f"{user}-a")


@pytest.fixture
def other_client(http: httpx2.Client, user: str) -> MemoryClient:
    """A client for a user whose name differs in one character."""
    return MemoryClient(http, f"{user}-b")


@pytest.fixture
def settled(server: str) -> Callable[[], None]:
    """Return a function that waits until all tasks of this test's requests have ended.

    Earlier tasks, such as sessions with tool servers, are ignored.
    """
    # Before the first call of a provider, the server's loop is not among the clients'.
    loops = {*provider_client.loops(), *event_loop_bridge._loops}
    before = {task for loop in loops for task in tasks(loop)}

    def settled() -> None:
        for loop in provider_client.loops():
            until(lambda loop=loop: not tasks(loop) - before)

    return settled


def tasks(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task]:
    """Return a loop's tasks, except those that serve requests."""
    running = asyncio.all_tasks(loop)
    return {t for t in running if not t.get_coro().__qualname__.startswith(SERVING)}
