"""A browser without credentials."""

import httpx2
import pytest


@pytest.fixture
def http(running):
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, headers={"Accept": "text/html"}
    ) as http:
        yield http
