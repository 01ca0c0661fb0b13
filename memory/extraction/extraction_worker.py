"""The extraction worker: it extracts facts from a turn after the reply is sent.

It indexes the messages of the turn, lets a model propose facts about the user, and
saves the facts whose quotes are verified. See docs/learning.md.
"""

import logging
import threading
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from django.db import InterfaceError, OperationalError

from config import live
from core.errors import Unavailable
from core.ids import UserId
from memory import memory_settings
from memory.extraction import (
    date_parsing,
    fact_parser,
    job_queue,
    llm_call,
    notifier,
    prompts,
)
from memory.extraction.fact_parser import ParsedFacts
from memory.extraction.injection import injection_filter
from memory.extraction.prompts import ExtractionInput, PromptMessage
from memory.facts import fact_store
from memory.facts.types import FactDraft, SaveResult, StoredFact
from memory.memory_settings import ExtractionModel, UserMemory
from memory.models import ExtractionJob, Passage, StoredMessage
from memory.recall import embedding, passages, search
from memory.recall.types import Embedded, Query
from providers.errors import TimedOut

logger = logging.getLogger(__name__)

LEASE_SECONDS = 300.0
"""The lease of a job, in seconds: longer than two calls of a model and two of an
embedder."""
MAX_EARLIER_MESSAGES = 12
"""Messages before the turn that the model sees as context."""
MAX_TURN_MESSAGES = 50
"""Newest messages of a turn that are read; a longer turn is an imported transcript."""
MAX_SIMILAR_FACTS = 10
"""Known facts that the model sees."""
MAX_SEARCH_CHARS = 20_000
"""Indexed characters of a message; PostgreSQL limits the words of a row to 1 MB."""
MAX_QUERY_CHARS = 4_000
MAX_QUOTED_CHARS = 4_000
"""Embedded characters of a message: the most that a prompt quotes."""
SPOKEN_ROLES = ("user", "assistant")
"""Roles whose messages are indexed; tool results and system messages are not."""

BUSY_RETRY_SECONDS = 10.0
"""Seconds until a job that found the local model busy is retried."""

MEMORY_OFF = "memory is off"


class ExtractionFailed(Exception):
    """Neither the model's reply nor its corrected reply could be read."""

    def __init__(self, problem: str, reply: str) -> None:
        super().__init__(f"the model's reply could not be read: {problem}")
        self.reply = reply


class LocalModelBusy(Exception):
    """The local model is already extracting from another turn."""


_stopping = threading.Event()
_running_jobs: dict[int, ExtractionJob] = {}
"""The jobs that this process is running."""
_local_model_lock = threading.Lock()
"""Held while extraction calls the local model: it answers two requests at once, and one
slot stays free for users."""


def run_due_jobs(seconds: float) -> int:
    """Run due jobs until none is left or the time is up; return how many ran.

    Wakes another worker if more jobs are due.
    """
    until = time.monotonic() + seconds
    count = 0
    while not _stopping.is_set() and (jobs := job_queue.claim(1, LEASE_SECONDS)):
        (job,) = jobs
        if job_queue.has_due_job(datetime.now(UTC)):
            notifier.notify()
        _running_jobs[job.pk] = job
        run_job(job)
        _running_jobs.pop(job.pk, None)
        count += 1
        if time.monotonic() >= until:
            notifier.notify()
            break
    return count


def stop() -> None:
    """Start no more jobs in this process, which is shutting down."""
    _stopping.set()


def release_jobs() -> None:
    """Release the jobs that this process will not finish.

    Another worker restarts them. Otherwise they, and all later jobs of the same users,
    would wait until the leases expire.
    """
    for job in list(_running_jobs.values()):
        job_queue.release(job, seconds=0)


def run_job(job: ExtractionJob) -> None:
    """Run one job and store its result in the job's row.

    The caller has claimed the job (`job_queue.claim`). Temporary failures, such as a
    busy provider, are retried later; others mark the job as failed. Raises only errors
    of writing that row.
    """
    try:
        memory = memory_settings.resolve_for_agent(live.current(), job.agent)
        if memory.user_memory is None:
            job_queue.complete(job, error=MEMORY_OFF)
        else:
            _extract(job, memory.user_memory)
    except job_queue.JobLeaseLost:
        logger.info("extraction job %d: lease lost", job.pk)
    except LocalModelBusy:
        job_queue.release(job, seconds=BUSY_RETRY_SECONDS)
    except ExtractionFailed as exc:
        job_queue.fail(job, str(exc), reply=exc.reply)
    except Exception as exc:
        _retry_or_fail(job, exc)


def _retry_or_fail(job: ExtractionJob, exc: Exception) -> None:
    error = f"{type(exc).__name__}: {exc}"
    if _is_retryable(exc) and job.attempts < job_queue.MAX_ATTEMPTS:
        asked = getattr(exc, "retry_after_seconds", None)
        seconds = job_queue.backoff_seconds(job.attempts, asked)
        if job_queue.retry(job, error, seconds=seconds):
            logger.info(
                "extraction job %d: retrying in %.0f s: %s",
                job.pk,
                seconds,
                type(exc).__name__,
            )
    else:
        job_queue.fail(job, error)


def _is_retryable(exc: Exception) -> bool:
    """Whether a retry of the job may succeed."""
    passing = (TimeoutError, TimedOut, Unavailable, OperationalError, InterfaceError)
    return isinstance(exc, passing) or bool(getattr(exc, "retryable", False))


def _extract(job: ExtractionJob, memory: UserMemory) -> None:
    turn, earlier = _read_messages(job)
    said = _index_messages(job, memory, turn)
    material = ExtractionInput(
        turn=[line for line in turn if line.role in SPOKEN_ROLES],
        earlier=[line for line in earlier if line.role in SPOKEN_ROLES],
        zone=date_parsing.get_zone(job.time_zone),
        agent=job.agent,
        max_facts=memory.user_state.max_facts_per_turn,
    )
    if not material.user_messages or material.max_facts == 0:
        job_queue.complete(job)
        return
    known = _similar_facts(job, memory, material.user_messages, said)
    found = _extract_facts(job, memory, material.with_known_facts(known))
    _save_facts(job, memory, found, quotable=said)


def _read_messages(
    job: ExtractionJob,
) -> tuple[list[PromptMessage], list[PromptMessage]]:
    """Return the messages of the turn, and the messages before it."""
    rows = StoredMessage.objects.filter(
        thread_id=job.thread_id,
        thread__user_id=job.user_id,
        position__gte=job.first_position - MAX_EARLIER_MESSAGES,
        position__lt=job.end_position,
    ).order_by("position")
    columns = rows.values_list("id", "position", "role", "text", "created_at")
    lines = [PromptMessage(*line) for line in columns]
    turn = [line for line in lines if line.position >= job.first_position]
    earlier = [line for line in lines if line.position < job.first_position]
    return turn[-MAX_TURN_MESSAGES:], earlier


# Indexing of messages.


def _index_messages(
    job: ExtractionJob, memory: UserMemory, turn: Sequence[PromptMessage]
) -> dict[int, Embedded | None]:
    """Store the passages of the turn; return all vectors by message id.

    Messages that look like instructions get no vector: otherwise prompts of other
    conversations would quote them.
    """
    spoken = [line for line in turn if _is_quotable(line)]
    embedded, errors = embedding.embed_texts(
        memory.embedder, [line.text for line in spoken]
    )
    ready = Passage.objects.filter(
        user_id=job.user_id,
        message_id__in=[line.id for line in spoken],
        embedder=memory.embedder.id,
    )
    # A retry whose embedder fails must not remove existing vectors.
    have = set(ready.values_list("message_id", flat=True))
    texts = [
        (line.id, line.position, line.text[:MAX_SEARCH_CHARS], vector, error)
        for line, vector, error in zip(spoken, embedded, errors, strict=True)
        if line.id not in have
    ]
    if texts:
        with job_queue.lock_leased(job):
            passages.index_messages(UserId(job.user_id), job.thread_id, texts)
    return {line.id: vector for line, vector in zip(spoken, embedded, strict=True)}


def _is_quotable(line: PromptMessage) -> bool:
    is_spoken = line.role in SPOKEN_ROLES and line.text.strip()
    return bool(is_spoken) and not injection_filter.find_injection(
        "", line.text[:MAX_QUOTED_CHARS]
    )


# Extraction of facts.


def _similar_facts(
    job: ExtractionJob,
    memory: UserMemory,
    from_user: Sequence[PromptMessage],
    vectors: dict[int, Embedded | None],
) -> list[StoredFact]:
    """Return known facts similar to the user's messages, for the model to compare."""
    text = "\n".join(line.text for line in from_user)[-MAX_QUERY_CHARS:]
    query = Query(
        text,
        embedded=vectors.get(from_user[-1].id),
        similarity_threshold=memory.embedder.floor,
        fusion=memory.user_state.fusion,
    )
    found = search.search_facts(UserId(job.user_id), query, limit=MAX_SIMILAR_FACTS)
    return [hit.fact for hit in found]


def _extract_facts(
    job: ExtractionJob, memory: UserMemory, material: ExtractionInput
) -> ParsedFacts:
    """Call the model, and again if its reply is unreadable.

    Raises `ExtractionFailed`.
    """
    learner = memory.extraction_model
    if learner is None:
        raise RuntimeError("no extraction model: set memory.user_state.learn_from")
    messages = prompts.build_prompt(material)
    problem = reply = ""
    is_local = learner.provider.kind == "local"
    wanted = prompts.LOCAL_RESPONSE_FORMAT if is_local else prompts.RESPONSE_FORMAT
    with _exclusive_local_model(learner):
        for _ in range(2):
            reply, is_whole = llm_call.call_model(
                learner, messages, response_format=wanted, user=job.user_id.hex
            )
            try:
                return fact_parser.parse_reply(reply, material, now=datetime.now(UTC))
            except fact_parser.FactListUnreadable as exc:
                problem = str(exc) if is_whole else "it was cut off; write fewer facts"
                messages = [*messages, *prompts.build_correction(reply, problem)]
    raise ExtractionFailed(problem, reply)


@contextmanager
def _exclusive_local_model(learner: ExtractionModel) -> Iterator[None]:
    """Reserve the local model; raises `LocalModelBusy` if another job uses it."""
    if learner.provider.kind != "local":
        yield
    elif _local_model_lock.acquire(blocking=False):
        try:
            yield
        finally:
            _local_model_lock.release()
    else:
        raise LocalModelBusy


def _save_facts(
    job: ExtractionJob,
    memory: UserMemory,
    found: ParsedFacts,
    *,
    quotable: Container[int],
) -> None:
    if found.dropped:
        logger.info(
            "extraction job %d: %d facts proposed, dropped: %s",
            job.pk,
            found.total,
            ", ".join(f"{count} {why}" for why, count in found.dropped.items()),
        )
    contents = [passages.strip_subject(draft.content) for draft in found.drafts]
    embedded, errors = embedding.embed_texts(memory.embedder, contents)
    with job_queue.lock_leased(job):
        saved = fact_store.save_drafts(
            UserId(job.user_id),
            found.drafts,
            embedded,
            by="extraction",
            threshold=memory.user_state.dedup_threshold,
            errors=errors,
        )
        _raise_importance(job, found.drafts, saved, quotable=quotable)
        news = sum(each.outcome != "unchanged" for each in saved)
        job_queue.complete(job, found=found.total, saved=news)


def _raise_importance(
    job: ExtractionJob,
    drafts: Sequence[FactDraft],
    saved: Sequence[SaveResult],
    *,
    quotable: Container[int],
) -> None:
    """Raise the importance of the source messages to that of their facts."""
    wanted: dict[int, float] = {}
    for draft, each in zip(drafts, saved, strict=True):
        message_id = draft.message_id
        # An inactive fact must not reach prompts through its source message.
        is_active = each.outcome not in ("pending_review", "outdated")
        if message_id is not None and message_id in quotable and is_active:
            importance = max(wanted.get(message_id, 0.0), draft.importance / 10)
            wanted[message_id] = importance
    # Always in the same order, so that two transactions cannot deadlock.
    for message_id, importance in sorted(wanted.items()):
        StoredMessage.objects.filter(
            pk=message_id, thread_id=job.thread_id, importance__lt=importance
        ).update(importance=importance)
