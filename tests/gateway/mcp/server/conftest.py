"""Fixtures of these tests."""

import pytest

from tests.gateway.mcp.server.session import REMEMBERING


@pytest.fixture
def server(running, configure) -> str:
    configure(REMEMBERING)
    return running
