"""Users of the memory API, each with hands of their own."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.gateway.hands import Hands


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
