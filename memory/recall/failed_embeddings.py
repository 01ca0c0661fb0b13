"""Retries of stored texts whose embedding failed."""

import time

from config import live
from memory import memory_settings
from memory.models import Passage
from memory.recall import embedding
from providers.embeddings.base import Embedder

BATCH_SIZE = 64
MAX_BATCHES = 10
"""Batches per call; the next call continues."""
MIN_BACKOFF_SECONDS = 60.0
MAX_BACKOFF_SECONDS = 600.0


class EmbedderBackoff:
    """Exponential backoff for a failing embedder."""

    def __init__(self) -> None:
        self._pause_seconds = 0.0
        self._until = 0.0

    @property
    def has_elapsed(self) -> bool:
        return time.monotonic() >= self._until

    def record(self, *, failed: bool) -> None:
        """Double the delay after a failure; reset it after a success."""
        longer = max(2 * self._pause_seconds, MIN_BACKOFF_SECONDS)
        self._pause_seconds = min(longer, MAX_BACKOFF_SECONDS) if failed else 0.0
        self._until = time.monotonic() + self._pause_seconds


_backoff = EmbedderBackoff()


def retry_failed_texts() -> int:
    """Embed texts whose embedding failed; return how many no longer wait for it.

    Does nothing while the embedder's backoff lasts, or if memory is off.
    """
    users = memory_settings.resolve_for_users(live.current())
    if users is None or not _backoff.has_elapsed:
        return 0
    embedded = 0
    for _ in range(MAX_BATCHES):
        texts = _list_failed_texts(BATCH_SIZE)
        if not texts:
            break
        settled = _retry_embedding(users.embedder, texts)
        _backoff.record(failed=settled == 0)
        embedded += settled
        if settled < len(texts):
            break
    return embedded


def _list_failed_texts(limit: int) -> list[Passage]:
    """Return passages whose embedding failed and may now succeed, oldest first."""
    failed = Passage.objects.filter(embedder="").exclude(embedding_error="")
    retryable = failed.exclude(embedding_error__startswith=embedding.REFUSED)
    return list(retryable.order_by("id").with_text()[:limit])


def _retry_embedding(embedder: Embedder, texts: list[Passage]) -> int:
    """Embed texts, or store why they have no vector; return how many were settled."""
    vectors, errors = embedding.embed_texts(embedder, [each.text for each in texts])
    settled = [
        (text, vector, error)
        for text, vector, error in zip(texts, vectors, errors, strict=True)
        if not error or error.startswith(embedding.REFUSED)
    ]
    # The others keep their error: rewriting it would only invalidate every cache.
    if settled:
        Passage.objects.set_vectors(settled)
    return len(settled)
