"""Fixtures of these tests."""

import pytest

from access.tokens import api_tokens
from memory.recall import query_embedding
from tests.access.actors import ADA
from tests.conftest import CONFIG


@pytest.fixture
def serve(running, configure):
    """Return a function that starts a server with these sections and limits."""

    def serve(*sections: str, limits: str = "") -> str:
        listed = f"limits: [{limits}]\n" if limits else ""
        configure(f"{CONFIG}\n{''.join(sections)}{listed}")
        return running

    return serve


@pytest.fixture
def create_token(database):
    def create_token(user: str, **fields) -> str:
        return api_tokens.create_token("ci", user, by=ADA, **fields)[1]

    return create_token


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let searches wait for a slow embedder, and end all of them afterwards."""
    monkeypatch.setattr(query_embedding, "MAX_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(query_embedding, "_unavailable_until", {})
