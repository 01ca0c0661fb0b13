"""Users of the memory API, each with hands of their own."""

import asyncio
from collections.abc import Callable, Iterator

import httpx2
import pytest

from providers import client as provider_client
from studio.server import event_loop_bridge
from tests.gateway.calls import until
from tests.gateway.hands import Hands

SERVING = ("Server.", "LifespanOn.", "serve.", "uvicorn", "Reporter.", "Watchers.")
"""What begins the names of tasks that serve, and that tell the live board."""


@pytest.fixture
def http(server: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server, timeout=60, verify=False) as client:
        yield client


@pytest.fixture
def hands(http: httpx2.Client, user: str) -> Hands:
    return Hands(http, f"{user}-a")


@pytest.fixture
def neighbour(http: httpx2.Client, user: str) -> Hands:
    """Whose name differs in one character."""
    return Hands(http, f"{user}-b")


@pytest.fixture
def settled(server: str) -> Callable[[], None]:
    """Return what waits until no loop runs anything that a request here began.

    What was running before is not of this test, such as sessions with tool servers.
    """
    # Where nobody called a provider yet, the server's loop is none of a client's.
    loops = {*provider_client.loops(), *event_loop_bridge._loops}
    before = {task for loop in loops for task in tasks(loop)}

    def settled() -> None:
        for loop in provider_client.loops():
            until(lambda loop=loop: not tasks(loop) - before)

    return settled


def tasks(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task]:
    """Return a loop's tasks, without those that serve."""
    running = asyncio.all_tasks(loop)
    return {t for t in running if not t.get_coro().__qualname__.startswith(SERVING)}
