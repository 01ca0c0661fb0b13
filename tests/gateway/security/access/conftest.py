"""Fixtures of these tests."""

import httpx2
import pytest

from access.tokens import api_tokens
from tests.access.actors import ADA
from tests.gateway.calls import bearer
from tests.gateway.security.access.requests import TOKENS


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def guarded(configure):
    configure(TOKENS)


@pytest.fixture
def own_headers(guarded, user) -> dict[str, str]:
    """The headers with a user's token."""
    return bearer(api_tokens.create_token("test", user, by=ADA)[1])


@pytest.fixture
def foreign_headers(guarded, user) -> dict[str, str]:
    """The headers of another user."""
    return bearer(api_tokens.create_token("test", f"{user}-b", by=ADA)[1])
