"""Celery tasks of memory: sweep, consolidation.

Each may be sent at any time and repeatedly: the database rows hold the work.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from celery import shared_task

from config import live
from core.runtime import shared_clock
from memory import memory_settings
from memory.facts import candidates
from memory.models import Fact
from memory.recall import failed_embeddings
from memory.recall.index import hnsw_index
from memory.sessions import session_end
from memory.transcript.summaries import consolidation

MAX_EXPIRY_BATCHES = 10
"""Batches of expired facts per sweep; the next sweep continues."""

logger = logging.getLogger(__name__)


@shared_task(name="memory.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Run the periodic sweep, every half minute."""
    run_sweep(shared_clock.now())


@shared_task(name="memory.tasks.consolidate", ignore_result=True)
def consolidate() -> None:
    """Summarize old conversations if it is time."""
    consolidation.consolidate(shared_clock.now())


def run_sweep(now: datetime) -> dict[str, int]:
    """Complete unfinished work; return how much, by kind.

    Covers expired facts, idle sessions, facts held for ended ones, texts without
    vectors, and the index of a new embedder's vectors. A failure of one does not stop
    the others.
    """
    steps: dict[str, Callable[[], int]] = {
        "facts expired": lambda: _expire_facts(now),
        "sessions ended": lambda: session_end.end_idle(now),
        "facts promoted": candidates.promote_left_over,
        "texts embedded": failed_embeddings.retry_failed_texts,
        "indexes built": _build_hnsw_index,
    }
    return {name: _run_step(name, step) for name, step in steps.items()}


def _run_step(name: str, step: Callable[[], int]) -> int:
    try:
        return step()
    except Exception:
        logger.exception("sweep step '%s' failed", name)
        return 0


def _expire_facts(now: datetime) -> int:
    expired = 0
    for _ in range(MAX_EXPIRY_BATCHES):
        count = Fact.objects.expire_due(now)
        expired += count
        if count == 0:
            break
    return expired


def _build_hnsw_index() -> int:
    users = memory_settings.resolve_for_users(live.current())
    if users is None:
        return 0
    return hnsw_index.ensure_index(users.embedder.id, users.embedder.dimensions)
