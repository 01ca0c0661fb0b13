"""The queue of extraction jobs, as database rows.

The row is the source of truth; a notification only makes a worker look sooner.
"""

import hashlib
import logging
import random
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import BooleanField, Count, Q, QuerySet
from django.db.models.expressions import RawSQL

from core.ids import TurnId, UserId
from core.text import redaction
from memory.facts import user_lock
from memory.models import ExtractionJob
from telemetry.storage.stored_text import make_storable

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""Attempts of a job before it is marked as failed."""
MIN_BACKOFF_SECONDS = 30.0
MAX_BACKOFF_SECONDS = 600.0
MAX_ERROR_LENGTH = 2_000
MAX_REPLY_LENGTH = 20_000

INSERT_SQL = """
    INSERT INTO memory_extractionjob (user_id, thread_id, turn_id, first_position,
        end_position, agent, time_zone, state, attempts, due_at, error, reply,
        facts_found, facts_saved, created_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s, 'queued', 0, %s, '', '', 0, 0, %s)
"""

# The states are literals, not parameters, and open jobs are selected first: only then
# does SQLite use their index and skip the many closed jobs.
FIRST_PER_USER_SQL = """
    WITH open_jobs AS MATERIALIZED (
        SELECT id, user_id, state, attempts, due_at FROM memory_extractionjob
        WHERE state IN ('queued', 'running')
    ), ranked AS (
        SELECT id, state, attempts, due_at,
            row_number() OVER (PARTITION BY user_id ORDER BY id) AS user_position,
            max(CASE WHEN state = 'running' AND due_at > %s THEN 1 ELSE 0 END)
                OVER (PARTITION BY user_id) AS is_busy
        FROM (SELECT * FROM open_jobs ORDER BY id LIMIT %s) AS oldest
    )
    SELECT id FROM ranked
    WHERE user_position = 1 AND is_busy = 0 AND due_at <= %s
        AND (state = 'queued' OR attempts < %s)
    ORDER BY due_at, id LIMIT %s
"""
CLAIM_SQL = """
    UPDATE memory_extractionjob SET state = 'running', attempts = attempts + 1,\
 due_at = %s
    WHERE id = %s AND state IN ('queued', 'running') AND due_at <= %s
"""
MAX_CHECKED = 500
"""Open jobs that are examined first; all of them only if none is claimable."""
UNLIMITED = 2**31
SPARE_CANDIDATES = 16
"""Candidates per requested job: other workers may claim some first."""


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    """A request to extract facts from a turn."""

    agent: str
    time_zone: str = ""
    """The user's IANA time zone; "" is UTC."""


class StoredTurn(NamedTuple):
    """A stored turn: its messages are `first <= position < end`."""

    user_id: UserId
    thread_id: int
    turn_id: TurnId
    first_position: int
    end_position: int


def enqueue(turn: StoredTurn, request: ExtractionRequest, now: datetime) -> None:
    """Add an extraction job for a turn, in the caller's transaction."""
    at = connection.ops.adapt_datetimefield_value(now)
    user = ExtractionJob._meta.get_field("user_id").get_db_prep_value(
        turn.user_id, connection
    )
    turn_id = ExtractionJob._meta.get_field("turn_id").get_db_prep_value(
        turn.turn_id, connection
    )
    with connection.cursor() as cursor:
        cursor.execute(
            INSERT_SQL,
            [
                user,
                turn.thread_id,
                turn_id,
                turn.first_position,
                turn.end_position,
                request.agent,
                request.time_zone,
                at,
                at,
            ],
        )


def claim(
    limit: int, lease_seconds: float, *, now: datetime | None = None
) -> list[ExtractionJob]:
    """Claim and return up to `limit` jobs, the longest due first.

    Claimable jobs are due, or their worker's lease has expired. Of each user only the
    oldest open job is claimable, and none while another of the same user is running, so
    that facts arrive in chronological order. Two workers never claim the same job.
    """
    now = now or datetime.now(UTC)
    # Read before the transaction: it may take a while, and SQLite has one writer.
    candidates = _claimable_ids(limit, now, MAX_CHECKED) or _claimable_ids(
        limit, now, UNLIMITED
    )
    claimed: list[int] = []
    for job_id in candidates:
        if len(claimed) < limit and _claim_one(job_id, lease_seconds, now):
            claimed.append(job_id)
    return (
        list(ExtractionJob.objects.filter(pk__in=claimed).order_by("pk"))
        if claimed
        else []
    )


def _claimable_ids(limit: int, now: datetime, max_checked: int) -> list[int]:
    at = connection.ops.adapt_datetimefield_value(now)
    values = [at, max_checked, at, MAX_ATTEMPTS, limit + SPARE_CANDIDATES]
    with connection.cursor() as cursor:
        cursor.execute(FIRST_PER_USER_SQL, values)
        return [job_id for (job_id,) in cursor.fetchall()]


def _claim_one(job_id: int, lease_seconds: float, now: datetime) -> bool:
    adapt = connection.ops.adapt_datetimefield_value
    lease_end = now + timedelta(seconds=lease_seconds)
    with connection.cursor() as cursor:
        cursor.execute(CLAIM_SQL, [adapt(lease_end), job_id, adapt(now)])
        return bool(cursor.rowcount)


def complete(
    job: ExtractionJob, *, found: int = 0, saved: int = 0, error: str = ""
) -> bool:
    """Mark a job as done, or as skipped with `error` as the reason.

    Returns whether this worker still had the lease: not if it expired and another
    worker claimed the job, nor if its user was erased.
    """
    return _close(
        job,
        state=ExtractionJob.State.DONE,
        facts_found=found,
        facts_saved=saved,
        error=error,
        reply="",
    )


def fail(job: ExtractionJob, error: str, *, reply: str = "", found: int = 0) -> bool:
    """Mark a job as failed, and log it.

    `reply` is the model's reply, if that caused the failure. Returns the same as
    `complete`.
    """
    closed = _close(
        job,
        state=ExtractionJob.State.FAILED,
        facts_found=found,
        error=_storable_text(error, MAX_ERROR_LENGTH),
        reply=_storable_text(reply, MAX_REPLY_LENGTH),
    )
    if closed:
        # The error may quote the model, and the model the user: only the row has it.
        logger.warning(
            "extraction job %d of turn %s, user %s failed; see "
            "`manage.py extraction --failed`",
            job.pk,
            job.turn_id,
            pseudonym(job.user_id),
        )
    return closed


def retry(job: ExtractionJob, error: str, *, seconds: float) -> bool:
    """Requeue a job after a failure, due after a pause; returns the same as
    `complete`."""
    due_at = datetime.now(UTC) + timedelta(seconds=seconds)
    leased = _leased_row(job)
    return bool(
        leased.update(
            state=ExtractionJob.State.QUEUED,
            due_at=due_at,
            error=_storable_text(error, MAX_ERROR_LENGTH),
        )
    )


def _storable_text(text: str, max_length: int) -> str:
    """Return the storable part of a text that may quote a provider or a model."""
    return make_storable(redaction.redact_own(text))[:max_length]


def release(job: ExtractionJob, *, seconds: float) -> bool:
    """Requeue a job that was not started, due after a pause."""
    return bool(
        _leased_row(job).update(
            state=ExtractionJob.State.QUEUED,
            attempts=job.attempts - 1,
            due_at=datetime.now(UTC) + timedelta(seconds=seconds),
        )
    )


class JobLeaseLost(Exception):
    """The lease is lost: another worker claimed the job, or its user was erased."""


@contextmanager
def lock_leased(job: ExtractionJob) -> Iterator[None]:
    """Write the results of a job in a transaction that locks its row.

    Raises `JobLeaseLost` if this worker lost its lease. So no data is written about a
    user who was erased meanwhile: an erasure locks the same row.
    """
    with transaction.atomic():
        owner = user_lock.lock_user(UserId(job.user_id), datetime.now(UTC))
        if not _leased_row(job).exists():
            raise JobLeaseLost
        if job.time_zone and job.time_zone != owner.time_zone:
            owner.time_zone = job.time_zone
            owner.save(update_fields=["time_zone"])
        yield


def backoff_seconds(attempts: int, minimum: float | None = None) -> float:
    """Return the delay after this many attempts; at least `minimum`."""
    longest = min(MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS * 4 ** (attempts - 1))
    jitter = random.uniform(longest / 2, longest)  # noqa: S311  not a secret
    return max(jitter, minimum or 0.0)


def requeue(ids: Iterable[int] | None = None, *, user_id: UserId | None = None) -> int:
    """Requeue failed jobs, all or by id; return how many there were."""
    rows = ExtractionJob.objects.filter(state=ExtractionJob.State.FAILED)
    if ids is not None:
        rows = rows.filter(pk__in=list(ids))
    if user_id is not None:
        rows = rows.filter(user_id=user_id)
    now = datetime.now(UTC)
    return rows.update(
        state=ExtractionJob.State.QUEUED, attempts=0, due_at=now, finished_at=None
    )


IS_FAILED = RawSQL("state = 'failed'", (), output_field=BooleanField())
"""The literal condition of the index `memory_extractionjob_failed`: with other words
SQLite ignores the index and reads all jobs."""


def count_failed(since: datetime) -> int:
    """Return how many jobs failed since then."""
    return ExtractionJob.objects.filter(IS_FAILED, finished_at__gte=since).count()


def close_abandoned(now: datetime) -> int:
    """Mark jobs as failed whose workers died repeatedly; return how many."""
    abandoned = ExtractionJob.objects.filter(
        state=ExtractionJob.State.RUNNING, due_at__lte=now, attempts__gte=MAX_ATTEMPTS
    )
    error = f"the worker stopped during extraction {MAX_ATTEMPTS} times"
    return sum(fail(job, error) for job in abandoned[:100])


def has_due_job(now: datetime) -> bool:
    """Whether a worker could claim a job."""
    return ExtractionJob.objects.filter(
        state__in=[ExtractionJob.State.QUEUED, ExtractionJob.State.RUNNING],
        due_at__lte=now,
    ).exists()


def count_by_state(
    now: datetime | None = None, *, user_id: UserId | None = None
) -> dict[str, int]:
    """Return how many jobs are due, waiting, running, done, skipped and failed.

    Waiting jobs are queued for later; skipped jobs have a reason.
    """
    now = now or datetime.now(UTC)
    rows = ExtractionJob.objects.all()
    if user_id is not None:
        rows = rows.filter(user_id=user_id)
    is_open, is_late = Q(state=ExtractionJob.State.QUEUED), Q(due_at__lte=now)
    is_running, is_done = (
        Q(state=ExtractionJob.State.RUNNING),
        Q(state=ExtractionJob.State.DONE),
    )
    return rows.aggregate(
        due=Count("pk", filter=(is_open | is_running) & is_late),
        waiting=Count("pk", filter=is_open & ~is_late),
        running=Count("pk", filter=is_running & ~is_late),
        done=Count("pk", filter=is_done & Q(error="")),
        skipped=Count("pk", filter=is_done & ~Q(error="")),
        failed=Count("pk", filter=Q(state=ExtractionJob.State.FAILED)),
    )


def pseudonym(user_id: uuid.UUID) -> str:
    """Return a stable pseudonym of a user for logs, instead of the id."""
    return hashlib.sha256(user_id.bytes).hexdigest()[:12]


def _leased_row(job: ExtractionJob) -> QuerySet[ExtractionJob]:
    # Each claim increments `attempts`, so the number identifies the lease.
    return ExtractionJob.objects.filter(
        pk=job.pk,
        user_id=job.user_id,
        state=ExtractionJob.State.RUNNING,
        attempts=job.attempts,
    )


def _close(job: ExtractionJob, **fields: Any) -> bool:
    return bool(_leased_row(job).update(finished_at=datetime.now(UTC), **fields))
