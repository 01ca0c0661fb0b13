"""Celery tasks of memory: extraction, sweep, consolidation.

Each may be sent at any time and repeatedly: the database rows hold the work.
"""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from celery import shared_task, signals

from config import live
from memory import memory_settings
from memory.extraction import extraction_worker, job_queue, notifier
from memory.facts import fact_store
from memory.recall import failed_embeddings
from memory.recall.index import hnsw_index
from memory.transcript.summaries import consolidation
from memory.user_data import erasure

EXTRACTION_SECONDS = 60.0
RELEASE_AFTER_SECONDS = 7.0
"""Seconds after a worker's stop signal; a second later it is killed
(`processes.worker`)."""
MAX_EXPIRY_BATCHES = 10
"""Batches of expired facts per sweep; the next sweep continues."""

logger = logging.getLogger(__name__)


@shared_task(name="memory.tasks.extract_facts", ignore_result=True)
def extract_facts() -> None:
    """Run the due extraction jobs."""
    extraction_worker.run_due_jobs(EXTRACTION_SECONDS)


@shared_task(name="memory.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Run the periodic sweep, every half minute."""
    run_sweep(datetime.now(UTC))


@shared_task(name="memory.tasks.consolidate", ignore_result=True)
def consolidate() -> None:
    """Summarize old conversations if it is time."""
    consolidation.consolidate(datetime.now(UTC))


@signals.worker_shutting_down.connect
def stop_extraction(**_: Any) -> None:
    """Start no new jobs, and release those that this worker will not finish."""
    extraction_worker.stop()
    timer = threading.Timer(RELEASE_AFTER_SECONDS, extraction_worker.release_jobs)
    timer.daemon = True
    timer.start()


def run_sweep(now: datetime) -> dict[str, int]:
    """Complete unfinished work; return how much, by kind.

    Covers jobs without notification, jobs of dead workers, expired facts, texts without
    vectors, unconfirmed erasure requests, and the index of a new embedder's vectors. A
    failure of one does not stop the others.
    """
    steps: dict[str, Callable[[], int]] = {
        "jobs failed": lambda: job_queue.close_abandoned(now),
        "workers notified": lambda: _notify_worker(now),
        "facts expired": lambda: _expire_facts(now),
        "texts embedded": failed_embeddings.retry_failed_texts,
        "erasure requests expired": lambda: erasure.delete_expired_requests(now),
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
    for _ in range(MAX_EXPIRY_BATCHES):
        count = fact_store.expire_due_facts(now)
        expired += count
        if count == 0:
            break
    return expired


def _build_hnsw_index() -> int:
    users = memory_settings.resolve_for_users(live.current())
    if users is None:
        return 0
    return hnsw_index.ensure_index(users.embedder.id, users.embedder.dimensions)
