"""Learning from a turn, after the user has had their answer.

What was said is made searchable; then a model is asked what it tells about the user,
and the facts that prove themselves are saved. docs/learning.md tells it whole.
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
from memory.memory_settings import ExtractionModel, UserMemory
from memory.models import ExtractionJob, Passage, StoredMessage
from memory.recall import embedding, passages, search
from memory.types import Embedded, FactDraft, KnownFact, Query, SaveResult
from providers.errors import TimedOut

logger = logging.getLogger(__name__)

LEASE_SECONDS = 300.0
"""Longer than a lesson can take: two answers of a model, two of an embedder."""
MAX_EARLIER_MESSAGES = 12
"""How many messages before the turn help to understand it."""
MAX_TURN_MESSAGES = 50
"""Of a turn, the newest; more is a transcript somebody sent in, not a turn."""
MAX_SIMILAR_FACTS = 10
"""How many known facts the model is shown."""
MAX_SEARCH_CHARS = 20_000
"""Of a message, to be found by; PostgreSQL takes no more than a megabyte of words."""
MAX_QUERY_CHARS = 4_000
MAX_QUOTED_CHARS = 4_000
"""Of a message, all that a prompt may ever quote."""
SPOKEN_ROLES = ("user", "assistant")
"""Whose messages can be found again: what tools and systems say is not said."""

BUSY_RETRY_SECONDS = 10.0
"""Until a lesson that found the local model busy is taken again."""

MEMORY_OFF = "memory is off"


class ExtractionFailed(Exception):
    """The model's reply could not be read, nor the one after it."""

    def __init__(self, problem: str, reply: str) -> None:
        super().__init__(f"the model's reply could not be read: {problem}")
        self.reply = reply


class LocalModelBusy(Exception):
    """The model on this machine learns from another turn already."""


_stopping = threading.Event()
_running_jobs: dict[int, ExtractionJob] = {}
"""The lessons this process is at."""
_local_model_lock = threading.Lock()
"""Whoever asks the model on this machine: it answers two at once, and one of them
shall be a user."""


def run_due_jobs(seconds: float) -> int:
    """Learn from what is due until nothing is, or the time is up; return how many.

    Where there is work for two, another worker is woken.
    """
    until = time.monotonic() + seconds
    learnt = 0
    while not _stopping.is_set() and (taken := job_queue.claim(1, LEASE_SECONDS)):
        (lesson,) = taken
        if job_queue.has_due_job(datetime.now(UTC)):
            notifier.notify()
        _running_jobs[lesson.pk] = lesson
        run_job(lesson)
        _running_jobs.pop(lesson.pk, None)
        learnt += 1
        if time.monotonic() >= until:
            notifier.notify()
            break
    return learnt


def stop() -> None:
    """Begin no further lesson in this process, which is about to end."""
    _stopping.set()


def release_jobs() -> None:
    """Let go of the lessons this process will not finish.

    Whoever takes them begins anew; else they would wait until the lease runs out, and
    all later ones of their users with them.
    """
    for lesson in list(_running_jobs.values()):
        job_queue.release(lesson, seconds=0)


def run_job(lesson: ExtractionJob) -> None:
    """Learn from one turn; what came of it is written in the lesson's row.

    The lesson is the caller's (`lessons.claim`). What may pass, a busy provider say,
    is tried again later; all else fails for a person to see. Raises nothing but what
    writing that row may.
    """
    try:
        memory = memory_settings.resolve_for_agent(live.current(), lesson.agent)
        if memory.user_memory is None:
            job_queue.complete(lesson, error=MEMORY_OFF)
        else:
            _extract(lesson, memory.user_memory)
    except job_queue.JobLeaseLost:
        logger.info("lesson %d is no longer ours", lesson.pk)
    except LocalModelBusy:
        job_queue.release(lesson, seconds=BUSY_RETRY_SECONDS)
    except ExtractionFailed as exc:
        job_queue.fail(lesson, str(exc), reply=exc.reply)
    except Exception as exc:
        _retry_or_fail(lesson, exc)


def _retry_or_fail(lesson: ExtractionJob, exc: Exception) -> None:
    error = f"{type(exc).__name__}: {exc}"
    if _is_retryable(exc) and lesson.attempts < job_queue.MAX_ATTEMPTS:
        asked = getattr(exc, "retry_after_seconds", None)
        seconds = job_queue.backoff_seconds(lesson.attempts, asked)
        if job_queue.retry(lesson, error, seconds=seconds):
            logger.info(
                "lesson %d is tried again in %.0f s: %s",
                lesson.pk,
                seconds,
                type(exc).__name__,
            )
    else:
        job_queue.fail(lesson, error)


def _is_retryable(exc: Exception) -> bool:
    """Whether the same lesson may go better later."""
    passing = (TimeoutError, TimedOut, Unavailable, OperationalError, InterfaceError)
    return isinstance(exc, passing) or bool(getattr(exc, "retryable", False))


def _extract(lesson: ExtractionJob, memory: UserMemory) -> None:
    turn, earlier = _read_messages(lesson)
    said = _index_messages(lesson, memory, turn)
    material = ExtractionInput(
        turn=[line for line in turn if line.role in SPOKEN_ROLES],
        earlier=[line for line in earlier if line.role in SPOKEN_ROLES],
        zone=date_parsing.get_zone(lesson.time_zone),
        agent=lesson.agent,
        max_facts=memory.user_state.max_facts_per_turn,
    )
    if not material.user_messages or material.max_facts == 0:
        job_queue.complete(lesson)
        return
    known = _similar_facts(lesson, memory, material.user_messages, said)
    found = _extract_facts(lesson, memory, material.with_known_facts(known))
    _save_facts(lesson, memory, found, quotable=said)


def _read_messages(
    lesson: ExtractionJob,
) -> tuple[list[PromptMessage], list[PromptMessage]]:
    """Return the messages of the turn, and those before it."""
    rows = StoredMessage.objects.filter(
        thread_id=lesson.thread_id,
        thread__user_id=lesson.user_id,
        position__gte=lesson.first_position - MAX_EARLIER_MESSAGES,
        position__lt=lesson.end_position,
    ).order_by("position")
    columns = rows.values_list("id", "position", "role", "text", "created_at")
    lines = [PromptMessage(*line) for line in columns]
    turn = [line for line in lines if line.position >= lesson.first_position]
    earlier = [line for line in lines if line.position < lesson.first_position]
    return turn[-MAX_TURN_MESSAGES:], earlier


# What was said can be found again.


def _index_messages(
    lesson: ExtractionJob, memory: UserMemory, turn: Sequence[PromptMessage]
) -> dict[int, Embedded | None]:
    """Store the passages of the turn; return the vectors of what was stored.

    Messages that read like orders get none: a prompt would quote them in conversations
    they were not said in.
    """
    spoken = [line for line in turn if _is_quotable(line)]
    embedded, errors = embedding.embed_texts(
        memory.embedder, [line.text for line in spoken]
    )
    ready = Passage.objects.filter(
        user_id=lesson.user_id,
        message_id__in=[line.id for line in spoken],
        embedder=memory.embedder.id,
    )
    # A lesson that is tried again must not lose to a worse day the vectors it has.
    have = set(ready.values_list("message_id", flat=True))
    texts = [
        (line.id, line.position, line.text[:MAX_SEARCH_CHARS], vector, error)
        for line, vector, error in zip(spoken, embedded, errors, strict=True)
        if line.id not in have
    ]
    if texts:
        with job_queue.lock_leased(lesson):
            passages.index_messages(UserId(lesson.user_id), lesson.thread_id, texts)
    return {line.id: vector for line, vector in zip(spoken, embedded, strict=True)}


def _is_quotable(line: PromptMessage) -> bool:
    is_spoken = line.role in SPOKEN_ROLES and line.text.strip()
    return bool(is_spoken) and not injection_filter.find_injection(
        "", line.text[:MAX_QUOTED_CHARS]
    )


# What it tells about the user.


def _similar_facts(
    lesson: ExtractionJob,
    memory: UserMemory,
    from_user: Sequence[PromptMessage],
    vectors: dict[int, Embedded | None],
) -> list[KnownFact]:
    """Return known facts like what the user says, for the model to compare with."""
    text = "\n".join(line.text for line in from_user)[-MAX_QUERY_CHARS:]
    query = Query(
        text,
        embedded=vectors.get(from_user[-1].id),
        similarity_threshold=memory.embedder.floor,
        fusion=memory.user_state.fusion,
    )
    found = search.search_facts(UserId(lesson.user_id), query, limit=MAX_SIMILAR_FACTS)
    return [hit.fact for hit in found]


def _extract_facts(
    lesson: ExtractionJob, memory: UserMemory, material: ExtractionInput
) -> ParsedFacts:
    """Ask the model, once more if its reply cannot be read; raises `ExtractionFailed`."""
    learner = memory.extraction_model
    if learner is None:
        raise RuntimeError(
            "there is no model to learn with: set memory.user_state.learn_from"
        )
    messages = prompts.build_prompt(material)
    problem = reply = ""
    is_local = learner.provider.kind == "local"
    wanted = prompts.LOCAL_RESPONSE_FORMAT if is_local else prompts.RESPONSE_FORMAT
    with _exclusive_local_model(learner):
        for _ in range(2):
            reply, is_whole = llm_call.call_model(
                learner, messages, response_format=wanted, user=lesson.user_id.hex
            )
            try:
                return fact_parser.parse_reply(reply, material, now=datetime.now(UTC))
            except fact_parser.FactListUnreadable as exc:
                problem = str(exc) if is_whole else "it was cut off; write fewer facts"
                messages = [*messages, *prompts.build_correction(reply, problem)]
    raise ExtractionFailed(problem, reply)


@contextmanager
def _exclusive_local_model(learner: ExtractionModel) -> Iterator[None]:
    """Ask the model on this machine alone; raises `LocalModelBusy` if another does."""
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
    lesson: ExtractionJob,
    memory: UserMemory,
    found: ParsedFacts,
    *,
    quotable: Container[int],
) -> None:
    if found.dropped:
        logger.info(
            "lesson %d: of %d facts proposed, dropped %s",
            lesson.pk,
            found.total,
            ", ".join(f"{count} {why}" for why, count in found.dropped.items()),
        )
    contents = [passages.strip_subject(draft.content) for draft in found.drafts]
    embedded, errors = embedding.embed_texts(memory.embedder, contents)
    with job_queue.lock_leased(lesson):
        saved = fact_store.save_drafts(
            UserId(lesson.user_id),
            found.drafts,
            embedded,
            by="extraction",
            threshold=memory.user_state.dedup_threshold,
            errors=errors,
        )
        _raise_importance(lesson, found.drafts, saved, quotable=quotable)
        news = sum(each.outcome != "unchanged" for each in saved)
        job_queue.complete(lesson, found=found.total, saved=news)


def _raise_importance(
    lesson: ExtractionJob,
    drafts: Sequence[FactDraft],
    saved: Sequence[SaveResult],
    *,
    quotable: Container[int],
) -> None:
    """Have the messages facts were learnt from matter as much as the facts do."""
    wanted: dict[int, float] = {}
    for draft, each in zip(drafts, saved, strict=True):
        message_id = draft.message_id
        # What is held must not come into prompts by the message it was learnt from.
        is_held = each.outcome in ("held", "outdated")
        if message_id is not None and message_id in quotable and not is_held:
            importance = max(wanted.get(message_id, 0.0), draft.importance / 10)
            wanted[message_id] = importance
    # In one order everywhere, so that two never wait for each other.
    for message_id, importance in sorted(wanted.items()):
        StoredMessage.objects.filter(
            pk=message_id, thread_id=lesson.thread_id, importance__lt=importance
        ).update(importance=importance)
