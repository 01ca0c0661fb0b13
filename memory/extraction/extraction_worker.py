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
from memory.extraction.fact_parser import Found
from memory.extraction.injection import injection_filter
from memory.extraction.prompts import Material, Said
from memory.facts import fact_store
from memory.memory_settings import Learner, Plan
from memory.models import Lesson, Message, Passage
from memory.recall import embedding, passages, search
from memory.types import Draft, Embedded, KnownFact, Query, Saved
from providers.errors import TimedOut

logger = logging.getLogger(__name__)

LEASE_SECONDS = 300.0
"""Longer than a lesson can take: two answers of a model, two of an embedder."""
EARLIER = 12
"""How many messages before the turn help to understand it."""
MOST_MESSAGES = 50
"""Of a turn, the newest; more is a transcript somebody sent in, not a turn."""
SIMILAR = 10
"""How many known facts the model is shown."""
MAX_SEARCH_CHARS = 20_000
"""Of a message, to be found by; PostgreSQL takes no more than a megabyte of words."""
MAX_QUERY_CHARS = 4_000
MAX_QUOTED_CHARS = 4_000
"""Of a message, all that a prompt may ever quote."""
SPOKEN = ("user", "assistant")
"""Whose messages can be found again: what tools and systems say is not said."""

BUSY_SECONDS = 10.0
"""Until a lesson that found the local model busy is taken again."""

OFF = "memory is off"


class Misread(Exception):
    """The model's reply could not be read, nor the one after it."""

    def __init__(self, problem: str, reply: str) -> None:
        super().__init__(f"the model's reply could not be read: {problem}")
        self.reply = reply


class LearnerBusy(Exception):
    """The model on this machine learns from another turn already."""


_stopping = threading.Event()
_in_hand: dict[int, Lesson] = {}
"""The lessons this process is at."""
_local_learner = threading.Lock()
"""Whoever asks the model on this machine: it answers two at once, and one of them
shall be a user."""


def drain(seconds: float) -> int:
    """Learn from what is due until nothing is, or the time is up; return how many.

    Where there is work for two, another worker is woken.
    """
    until = time.monotonic() + seconds
    learnt = 0
    while not _stopping.is_set() and (taken := job_queue.claim(1, LEASE_SECONDS)):
        (lesson,) = taken
        if job_queue.is_due(datetime.now(UTC)):
            notifier.soon()
        _in_hand[lesson.pk] = lesson
        learn(lesson)
        _in_hand.pop(lesson.pk, None)
        learnt += 1
        if time.monotonic() >= until:
            notifier.soon()
            break
    return learnt


def stop() -> None:
    """Begin no further lesson in this process, which is about to end."""
    _stopping.set()


def give_back() -> None:
    """Let go of the lessons this process will not finish.

    Whoever takes them begins anew; else they would wait until the lease runs out, and
    all later ones of their users with them.
    """
    for lesson in list(_in_hand.values()):
        job_queue.put_back(lesson, seconds=0)


def learn(lesson: Lesson) -> None:
    """Learn from one turn; what came of it is written in the lesson's row.

    The lesson is the caller's (`lessons.claim`). What may pass, a busy provider say,
    is tried again later; all else fails for a person to see. Raises nothing but what
    writing that row may.
    """
    try:
        memory = memory_settings.of_agent(live.current(), lesson.agent)
        if memory.user_memory is None:
            job_queue.done(lesson, error=OFF)
        else:
            _learn(lesson, memory.user_memory)
    except job_queue.Gone:
        logger.info("lesson %d is no longer ours", lesson.pk)
    except LearnerBusy:
        job_queue.put_back(lesson, seconds=BUSY_SECONDS)
    except Misread as exc:
        job_queue.failed(lesson, str(exc), reply=exc.reply)
    except Exception as exc:
        _fail(lesson, exc)


def _fail(lesson: Lesson, exc: Exception) -> None:
    error = f"{type(exc).__name__}: {exc}"
    if _may_pass(exc) and lesson.attempts < job_queue.MAX_ATTEMPTS:
        asked = getattr(exc, "retry_after_seconds", None)
        seconds = job_queue.pause_seconds(lesson.attempts, asked)
        if job_queue.retry(lesson, error, seconds=seconds):
            logger.info(
                "lesson %d is tried again in %.0f s: %s",
                lesson.pk,
                seconds,
                type(exc).__name__,
            )
    else:
        job_queue.failed(lesson, error)


def _may_pass(exc: Exception) -> bool:
    """Whether the same lesson may go better later."""
    passing = (TimeoutError, TimedOut, Unavailable, OperationalError, InterfaceError)
    return isinstance(exc, passing) or bool(getattr(exc, "retryable", False))


def _learn(lesson: Lesson, memory: Plan) -> None:
    turn, earlier = _read(lesson)
    said = _make_searchable(lesson, memory, turn)
    material = Material(
        turn=[line for line in turn if line.role in SPOKEN],
        earlier=[line for line in earlier if line.role in SPOKEN],
        zone=date_parsing.zone_of(lesson.time_zone),
        agent=lesson.agent,
        max_facts=memory.user_state.max_facts_per_turn,
    )
    if not material.user_messages or material.max_facts == 0:
        job_queue.done(lesson)
        return
    known = _similar(lesson, memory, material.user_messages, said)
    found = _ask(lesson, memory, material.with_known_facts(known))
    _save(lesson, memory, found, quotable=said)


def _read(lesson: Lesson) -> tuple[list[Said], list[Said]]:
    """Return the messages of the turn, and those before it."""
    rows = Message.objects.filter(
        thread_id=lesson.thread_id,
        thread__user_id=lesson.user_id,
        position__gte=lesson.first_position - EARLIER,
        position__lt=lesson.end_position,
    ).order_by("position")
    columns = rows.values_list("id", "position", "role", "text", "created_at")
    lines = [Said(*line) for line in columns]
    turn = [line for line in lines if line.position >= lesson.first_position]
    earlier = [line for line in lines if line.position < lesson.first_position]
    return turn[-MOST_MESSAGES:], earlier


# What was said can be found again.


def _make_searchable(
    lesson: Lesson, memory: Plan, turn: Sequence[Said]
) -> dict[int, Embedded | None]:
    """Store the passages of the turn; return the vectors of what was stored.

    Messages that read like orders get none: a prompt would quote them in conversations
    they were not said in.
    """
    spoken = [line for line in turn if _may_be_quoted(line)]
    embedded, errors = embedding.vectors(
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
        with job_queue.at_work(lesson):
            passages.put_messages(UserId(lesson.user_id), lesson.thread_id, texts)
    return {line.id: vector for line, vector in zip(spoken, embedded, strict=True)}


def _may_be_quoted(line: Said) -> bool:
    is_spoken = line.role in SPOKEN and line.text.strip()
    return bool(is_spoken) and not injection_filter.why_held(
        "", line.text[:MAX_QUOTED_CHARS]
    )


# What it tells about the user.


def _similar(
    lesson: Lesson,
    memory: Plan,
    from_user: Sequence[Said],
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
    found = search.facts(UserId(lesson.user_id), query, limit=SIMILAR)
    return [hit.fact for hit in found]


def _ask(lesson: Lesson, memory: Plan, material: Material) -> Found:
    """Ask the model, once more if its reply cannot be read; raises `Misread`."""
    learner = memory.extraction_model
    if learner is None:
        raise RuntimeError(
            "there is no model to learn with: set memory.user_state.learn_from"
        )
    messages = prompts.prompt(material)
    problem = reply = ""
    is_local = learner.provider.kind == "local"
    wanted = prompts.BRIEF_FORMAT if is_local else prompts.RESPONSE_FORMAT
    with _turn_of(learner):
        for _ in range(2):
            reply, is_whole = llm_call.ask(
                learner, messages, response_format=wanted, user=lesson.user_id.hex
            )
            try:
                return fact_parser.read(reply, material, now=datetime.now(UTC))
            except fact_parser.Unreadable as exc:
                problem = str(exc) if is_whole else "it was cut off; write fewer facts"
                messages = [*messages, *prompts.correction(reply, problem)]
    raise Misread(problem, reply)


@contextmanager
def _turn_of(learner: Learner) -> Iterator[None]:
    """Ask the model on this machine alone; raises `LearnerBusy` if another does."""
    if learner.provider.kind != "local":
        yield
    elif _local_learner.acquire(blocking=False):
        try:
            yield
        finally:
            _local_learner.release()
    else:
        raise LearnerBusy


def _save(
    lesson: Lesson, memory: Plan, found: Found, *, quotable: Container[int]
) -> None:
    if found.dropped:
        logger.info(
            "lesson %d: of %d facts proposed, dropped %s",
            lesson.pk,
            found.total,
            ", ".join(f"{count} {why}" for why, count in found.dropped.items()),
        )
    contents = [passages.strip_subject(draft.content) for draft in found.drafts]
    embedded, errors = embedding.vectors(memory.embedder, contents)
    with job_queue.at_work(lesson):
        saved = fact_store.save(
            UserId(lesson.user_id),
            found.drafts,
            embedded,
            by="extraction",
            threshold=memory.user_state.dedup_threshold,
            errors=errors,
        )
        _raise_importance(lesson, found.drafts, saved, quotable=quotable)
        news = sum(each.outcome != "unchanged" for each in saved)
        job_queue.done(lesson, found=found.total, saved=news)


def _raise_importance(
    lesson: Lesson,
    drafts: Sequence[Draft],
    saved: Sequence[Saved],
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
        Message.objects.filter(
            pk=message_id, thread_id=lesson.thread_id, importance__lt=importance
        ).update(importance=importance)
