"""How long a turn waits for an embedder, and when it skips the embedder."""

import asyncio
from typing import Any

import numpy as np
import pytest

from memory import memory_settings
from memory.config import MemoryConfig, UserState
from memory.memory_settings import UserMemory
from memory.recall import query_embedding, query_preparation
from providers.embeddings import embedders, openai
from providers.embeddings.api_client import OPENAI_LIMITS
from providers.embeddings.base import Embedder, EmbeddingApi
from providers.errors import EmbedderMisconfigured, ProviderFailed, RequestRefused
from providers.resilience.error_mapping import ProviderSource


class Remote:
    """A scripted embedding API."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None
        self.hangs = False

    async def embed(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(60)
        if self.error is not None:
            raise self.error
        return np.ones((1, 3), dtype=np.float32)


@pytest.fixture
def remote(monkeypatch) -> Remote:
    remote = Remote()
    monkeypatch.setattr(embedders, "embed_texts", remote.embed)
    monkeypatch.setattr(query_embedding, "_unavailable_until", {})
    return remote


@pytest.fixture
def remembering(fake) -> UserMemory:
    source = ProviderSource("openai", fake.provider(), openai.DEFAULT_MODEL)
    service = EmbeddingApi(source, 3, OPENAI_LIMITS, {})
    embedder = Embedder("ours", 3, 0.2, api=service)
    return UserMemory(embedder, None, UserState(), MemoryConfig())


async def has_vector(remembering: UserMemory) -> bool:
    query = await query_embedding.build_query(remembering, "Lisbon?")
    return query.embedded is not None


async def test_hanging_embedder_delays_only_one_turn(remote, remembering, monkeypatch):
    monkeypatch.setattr(query_embedding, "MAX_WAIT_SECONDS", 0.02)
    remote.hangs = True
    assert not await has_vector(remembering)
    assert not await has_vector(remembering)
    assert remote.asked == 1


async def test_failed_embedder_is_retried_later(remote, remembering, monkeypatch):
    monkeypatch.setattr(query_embedding, "RETRY_SECONDS", 0.0)
    remote.error = ProviderFailed("it is down")
    assert not await has_vector(remembering)
    remote.error = None
    assert await has_vector(remembering)


async def test_refused_text_does_not_pause_the_embedder(remote, remembering):
    remote.error = RequestRefused("it is too long")
    assert not await has_vector(remembering)
    remote.error = None
    assert await has_vector(remembering)


@pytest.mark.usefixtures("server")
def test_failed_warmup_is_logged_and_stops_nothing(monkeypatch, caplog):
    def fail(config):
        raise EmbedderMisconfigured("embed_with.model: there is none")

    monkeypatch.setattr(memory_settings, "resolve_for_users", fail)
    query_preparation.warm()
    assert "embed_with.model: there is none" in caplog.text
