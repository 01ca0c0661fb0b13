"""The periodic sweep: every half minute it completes unfinished work."""

import logging
import time
from collections.abc import Callable
from datetime import datetime

from config import live
from core.ids import UserId
from memory import memory_settings
from memory.extraction import job_queue, notifier
from memory.facts import fact_store
from memory.models import Passage, PendingErasure
from memory.recall import embedding, passages
from memory.recall.index import hnsw_index
from memory.recall.passages import PendingPassage
from providers.embeddings.base import Embedder

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
MAX_BATCHES = 10
"""Texts per sweep; the next sweep continues."""
MAX_BACKOFF_SECONDS = 600.0


class EmbedderBackoff:
    """Exponential backoff for a failing embedder."""

    def __init__(self) -> None:
        self._pause_seconds = 0.0
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def record(self, *, failed: bool) -> None:
        """Double the delay after a failure; reset it after a success."""
        longer = min(max(2 * self._pause_seconds, 60.0), MAX_BACKOFF_SECONDS)
        self._pause_seconds = longer if failed else 0.0
        self._until = time.monotonic() + self._pause_seconds


_backoff = EmbedderBackoff()


def sweep(now: datetime) -> dict[str, int]:
    """Complete unfinished work; return how much, by kind.

    Covers jobs without notification, jobs of dead workers, expired facts, texts without
    vectors, unconfirmed erasure requests, and the index of a new embedder's vectors. A
    failure of one does not stop the others.
    """
    steps: dict[str, Callable[[], int]] = {
        "jobs failed": lambda: job_queue.close_abandoned(now),
        "workers notified": lambda: _notify_worker(now),
        "facts expired": lambda: _expire_facts(now),
        "texts embedded": _embed_failed_texts,
        "erasure requests expired": lambda: _delete_expired_erasures(now),
        "indexes built": _build_hnsw_index,
    }
    return {name: _run_step(name, step) for name, step in steps.items()}


def _run_step(name: str, step: Callable[[], int]) -> int:
    try:
        return step()
    except Exception:
        logger.exception("sweep step '%s' failed", name)
        return 0


def _notify_worker(now: datetime) -> int:
    if not job_queue.has_due_job(now):
        return 0
    notifier.notify()
    return 1


def _expire_facts(now: datetime) -> int:
    expired = 0
    for _ in range(MAX_BATCHES):
        count = fact_store.expire_due_facts(now)
        expired += count
        if count == 0:
            break
    return expired


def _delete_expired_erasures(now: datetime) -> int:
    return PendingErasure.objects.filter(expires_at__lte=now).delete()[0]


def _build_hnsw_index() -> int:
    users = memory_settings.resolve_for_users(live.current())
    if users is None:
        return 0
    return hnsw_index.ensure_index(users.embedder.id, users.embedder.dimensions)


# Texts whose embedding failed.


def _embed_failed_texts() -> int:
    users = memory_settings.resolve_for_users(live.current())
    if users is None or not _backoff.is_over:
        return 0
    embedded = 0
    for _ in range(MAX_BATCHES):
        waiting = _list_failed_texts(BATCH_SIZE)
        if not waiting:
            break
        settled = _retry_embedding(users.embedder, waiting)
        _backoff.record(failed=settled == 0)
        embedded += settled
        if settled < len(waiting):
            break
    return embedded


def _list_failed_texts(limit: int) -> list[PendingPassage]:
    """Return passages whose embedding failed and may now succeed, oldest first."""
    rows = (
        Passage.objects.filter(embedder="")
        .exclude(embedding_error="")
        .exclude(embedding_error__startswith=embedding.REFUSED)
        .order_by("id")
        .values_list("id", "user_id", "fact__content", "message__text")[:limit]
    )
    return [
        PendingPassage(
            number, UserId(user_id), said or passages.strip_subject(content or "")
        )
        for number, user_id, content, said in rows
    ]


def _retry_embedding(embedder: Embedder, waiting: list[PendingPassage]) -> int:
    """Embed texts, or record why they get no vector; return how many were settled."""
    found, errors = embedding.embed_texts(embedder, [text.text for text in waiting])
    settled = [
        (text, vector, error)
        for text, vector, error in zip(waiting, found, errors, strict=True)
        if not error or error.startswith(embedding.REFUSED)
    ]
    # The others keep their error: rewriting it would only invalidate every cache.
    if settled:
        passages.set_vectors(settled)
    return len(settled)
