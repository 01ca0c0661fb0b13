"""Fixtures of these tests."""

import httpx2
import openai
import pytest

from access.tokens import api_tokens
from tests.access.actors import ADA


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def sdk(running):
    """Return a function that creates the official client with a key."""
    clients = []

    def client(key: str) -> openai.OpenAI:
        clients.append(
            openai.OpenAI(
                base_url=f"{running}/v1",
                api_key=key,
                max_retries=0,
                timeout=60,
                http_client=openai.DefaultHttpxClient(verify=False),
            )
        )
        return clients[-1]

    yield client
    for one in clients:
        one.close()


@pytest.fixture
def create_token(database, user):
    """Return a function that creates a token for the test's user."""

    def create_token(principal=user, **terms) -> str:
        return api_tokens.create_token("test", principal, by=ADA, **terms)[1]

    return create_token
