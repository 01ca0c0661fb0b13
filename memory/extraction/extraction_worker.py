"""The extraction worker: it extracts facts from a turn after the reply is sent.

It indexes the messages of the turn, lets a model propose facts about the user, and
saves the facts whose quotes are verified. See docs/learning.md.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from django.db import InterfaceError, OperationalError, transaction

from config import live
from core.errors import CoulisseError, Unavailable
from core.ids import pseudonym
from core.text.injection import injection_filter
from memory import memory_settings
from memory.config import MemoryConfig, scope_key
from memory.errors import LearningOff
from memory.extraction import (
    date_parsing,
    extraction_tasks,
    fact_parser,
    llm_call,
    prompts,
)
from memory.extraction.extraction_tasks import ExtractionTask
from memory.extraction.fact_parser import ParsedFacts
from memory.extraction.prompts import DIALOGUE_ROLES, ExtractionInput, PromptMessage
from memory.facts import fact_store, forgetting
from memory.facts.types import FactDraft, SaveResult
from memory.memory_settings import ExtractionModel, UserMemory
from memory.models import Fact, FactMessage, Owner, Passage, StoredMessage, Thread
from memory.models.passages import MAX_SEARCH_CHARS
from memory.recall import embedding, search
from memory.recall.index import tokenizer
from memory.recall.types import Embedded, Query
from memory.transcript import withholding
from providers.embeddings.base import Embedder
from providers.errors import TimedOut
from tasks.errors import LeaseLost
from tasks.models import Task

logger = logging.getLogger(__name__)

MAX_EARLIER_MESSAGES = 12
"""Messages before the turn that the model sees as context."""
MAX_TURN_MESSAGES = 50
"""Newest messages of a turn that are read; a longer turn is an imported transcript."""
MAX_SIMILAR_FACTS = 10
"""Stored facts that the model sees."""
MAX_QUERY_CHARS = 4_000
MAX_QUOTED_CHARS = 4_000
"""Embedded characters of a message: as many as a prompt quotes at most."""

BUSY_RETRY_SECONDS = 10.0
"""Seconds until a task that found the local model busy is retried."""

MEMORY_OFF = "memory is off"
LEARNING_OFF = "the user has switched learning off"


class ExtractionFailed(CoulisseError):
    """Neither the model's reply nor its corrected reply could be read."""

    def __init__(self, problem: str, reply: str) -> None:
        super().__init__(f"the model's reply could not be read: {problem}")
        self.reply = reply


class LocalModelBusy(Exception):
    """The local model is already extracting from another turn."""


_local_model_lock = threading.Lock()
"""Taken while extraction calls the local model: it answers two requests at once, and
one slot stays free for users."""


def run(task: Task) -> None:
    """Extract facts from the turn of a claimed task, and store the result in its row.

    Temporary failures, such as a busy provider, are retried later; others make the task
    errored. Raises only errors of writing that row.
    """
    job = ExtractionTask.read(task)
    try:
        memory = memory_settings.resolve_for_agent(live.current(), job.agent)
        if job.is_search_only:
            turn, _ = _read_messages(job)
            user_memory = memory.user_memory
            embedder = None if user_memory is None else user_memory.embedder
            _index_messages(job, embedder, turn, memory.settings)
            job.complete()
        elif memory.user_memory is None:
            job.complete(skipped=MEMORY_OFF)
        else:
            _extract(job, memory.user_memory)
    except LeaseLost:
        logger.info("extraction task %s: lease lost", task.pk)
    except LearningOff:
        job.complete(skipped=LEARNING_OFF)
    except LocalModelBusy:
        task.release(delay_seconds=BUSY_RETRY_SECONDS)
    except Exception as exc:
        _record_failure(task, exc)


def _record_failure(task: Task, exc: Exception) -> None:
    reply = exc.reply if isinstance(exc, ExtractionFailed) else ""
    is_errored = task.fail(
        exc,
        is_final=not is_retryable(exc),
        result=extraction_tasks.failure_result(reply),
    )
    if not is_errored:
        logger.info(
            "extraction task %s: retrying after %s", task.pk, type(exc).__name__
        )
        return
    if not isinstance(exc, CoulisseError):
        logger.error("extraction task %s", task.pk, exc_info=exc)
    # Without the error's text: it may quote the model, and the model the user.
    logger.warning(
        "extraction task %s of turn %s of user %s failed: "
        "`coulisse extraction --failed`",
        task.pk,
        task.turn_id,
        pseudonym(task.user_id),
    )


def is_retryable(exc: Exception) -> bool:
    """Return whether an error of a model or the database may pass."""
    temporary = (TimeoutError, TimedOut, Unavailable, OperationalError, InterfaceError)
    return isinstance(exc, temporary) or bool(getattr(exc, "retryable", False))


def _extract(job: ExtractionTask, memory: UserMemory) -> None:
    _withhold_copies(job)
    if not Owner.objects.of_user(job.user_id).is_learning_on:
        raise LearningOff
    turn, earlier = _read_messages(job)
    scope = _scope(job, memory.memory)
    vectors = _index_messages(job, memory.embedder, turn, memory.memory)
    extraction_input = ExtractionInput(
        turn=[line for line in turn if line.role in DIALOGUE_ROLES],
        earlier=[line for line in earlier if line.role in DIALOGUE_ROLES],
        zone=date_parsing.get_zone(job.time_zone),
        agent=job.agent,
        scope=scope,
        max_facts=memory.user_state.max_facts_per_turn,
    )
    if not extraction_input.user_messages or extraction_input.max_facts == 0:
        job.complete()
        return
    similar_facts = _similar_facts(job, memory, extraction_input, vectors)
    parsed = _extract_facts(
        job, memory, extraction_input.with_similar_facts(similar_facts)
    )
    _save_facts(job, memory, parsed, quotable=vectors)


def _scope(job: ExtractionTask, settings: MemoryConfig) -> str:
    thread = ""
    if settings.scope == "thread":
        names = Thread.objects.filter(pk=job.thread_id).values_list("name", flat=True)
        thread = names.first() or ""
    return scope_key(settings.scope, job.agent, thread)


def _read_messages(
    job: ExtractionTask,
) -> tuple[list[PromptMessage], list[PromptMessage]]:
    """Return the messages of the turn, and the messages before it."""
    rows = StoredMessage.objects.filter(
        thread_id=job.thread_id,
        thread__user_id=job.user_id,
        position__gte=job.first_position - MAX_EARLIER_MESSAGES,
        position__lt=job.end_position,
    ).order_by("position")
    columns = rows.for_models().values_list(
        "id", "position", "role", "text", "created_at"
    )
    messages = [PromptMessage(*message) for message in columns]
    turn = [message for message in messages if message.position >= job.first_position]
    earlier = [message for message in messages if message.position < job.first_position]
    return turn[-MAX_TURN_MESSAGES:], earlier


def _withhold_copies(job: ExtractionTask) -> None:
    """Withhold what the turn stored again of forgotten messages.

    A client that sends its whole conversation may not be recognised: then the messages
    before the new ones are stored, too.
    """
    rows = StoredMessage.objects.filter(
        thread_id=job.thread_id,
        thread__user_id=job.user_id,
        turn_id=job.task.turn_id,  # type: ignore[misc]  # It is of a turn.
    )
    if rows.filter(position=job.first_position - 1).exists():
        earlier = rows.filter(position__lt=job.first_position)
        with transaction.atomic():
            # Linked facts and messages must not be deleted meanwhile.
            withholding.lock_user(job.user_id)
            copies = forgetting.find_copies(job.user_id, earlier)
            withholding.withhold(job.user_id, [number for _, number in copies])
            FactMessage.objects.link(copies)


# Indexing of messages.


def _index_messages(
    job: ExtractionTask,
    embedder: Embedder | None,
    turn: Sequence[PromptMessage],
    settings: MemoryConfig,
) -> dict[int, Embedded | None]:
    """Store the passages of the turn; return all vectors by message id.

    Without an embedder, only words are searched.

    Messages that look like instructions get no vector: otherwise prompts of other
    conversations would quote them.
    """
    quotable = [message for message in turn if _is_quotable(message)]
    vectors: list[Embedded | None] = [None] * len(quotable)
    errors = [""] * len(quotable)
    if embedder is not None:
        vectors, errors = embedding.embed_texts(
            embedder, [message.text for message in quotable]
        )
    indexed = Passage.objects.filter(
        user_id=job.user_id,
        message_id__in=[message.id for message in quotable],
        embedder="" if embedder is None else embedder.id,
    )
    # A retry whose embedder fails must not remove existing vectors.
    indexed_ids = set(indexed.values_list("message_id", flat=True))
    texts = [
        (message.id, message.text[:MAX_SEARCH_CHARS], vector, error)
        for message, vector, error in zip(quotable, vectors, errors, strict=True)
        if message.id not in indexed_ids
    ]
    if texts:
        with job.locked():
            places = _find_places(message_id for message_id, *_ in texts)
            by_thread = defaultdict(list)
            for number, text, vector, error in texts:
                if place := places.get(number):
                    row = number, place.position, text, vector, error
                    by_thread[place.thread_id, place.thread].append(row)
            for (thread_id, name), rows in by_thread.items():
                scope = scope_key(settings.scope, job.agent, name)
                Passage.objects.index_messages(
                    job.user_id, thread_id, rows, scope=scope
                )
    return {
        message.id: vector for message, vector in zip(quotable, vectors, strict=True)
    }


class _Place(NamedTuple):
    thread_id: int
    thread: str
    position: int


def _find_places(message_ids: Iterable[int | None]) -> dict[int, _Place]:
    """Return where messages are now, without those deleted or withheld since then.

    The first turn of a conversation may have been moved to another thread.
    """
    rows = StoredMessage.objects.filter(pk__in=[*message_ids], is_withheld=False)
    found = rows.values_list("pk", "thread_id", "thread__name", "position")
    return {row[0]: _Place(*row[1:]) for row in found}


def _is_quotable(message: PromptMessage) -> bool:
    has_text = message.role in DIALOGUE_ROLES and message.text.strip()
    return bool(has_text) and not injection_filter.find_injection(
        "", message.text[:MAX_QUOTED_CHARS]
    )


# Extraction of facts.


def _similar_facts(
    job: ExtractionTask,
    memory: UserMemory,
    extraction_input: ExtractionInput,
    vectors: dict[int, Embedded | None],
) -> list[Fact]:
    """Return stored facts for the model to compare: the rules, and facts similar to
    the user's messages."""
    user_messages = extraction_input.user_messages
    text = "\n".join(message.text for message in user_messages)[-MAX_QUERY_CHARS:]
    query = Query(
        text,
        embedded=vectors.get(user_messages[-1].id),
        similarity_threshold=memory.embedder.similarity_threshold,
        fusion=memory.user_state.fusion,
    )
    results = search.search_facts(
        job.user_id, query, limit=MAX_SIMILAR_FACTS, scope=extraction_input.scope
    )
    similar = [hit.fact for hit in results if hit.fact.category != "episode"]
    rules = Fact.objects.filter(
        user_id=job.user_id, category="rule", scope=extraction_input.scope
    )
    return [*rules.with_status("active").newest_first(), *similar]


def _extract_facts(
    job: ExtractionTask, memory: UserMemory, extraction_input: ExtractionInput
) -> ParsedFacts:
    """Call the model, and again if its reply is unreadable.

    Raises `ExtractionFailed`.
    """
    model = memory.extraction_model
    if model is None:
        raise RuntimeError("no extraction model: set memory.user_state.learn_from")
    messages = prompts.build_prompt(extraction_input)
    problem = reply = ""
    is_local = model.provider.kind == "local"
    response_format = (
        prompts.LOCAL_RESPONSE_FORMAT if is_local else prompts.RESPONSE_FORMAT
    )
    with _exclusive_local_model(model):
        for _ in range(2):
            reply, is_whole = llm_call.call_model(
                model, messages, response_format=response_format, user=job.user_id.hex
            )
            try:
                return fact_parser.parse_reply(
                    reply, extraction_input, now=datetime.now(UTC)
                )
            except fact_parser.FactListUnreadable as exc:
                problem = str(exc) if is_whole else "it was cut off; write fewer facts"
                messages = [*messages, *prompts.build_correction(reply, problem)]
    raise ExtractionFailed(problem, reply)


@contextmanager
def _exclusive_local_model(model: ExtractionModel) -> Iterator[None]:
    """Reserve the local model; raises `LocalModelBusy` if another task uses it."""
    if model.provider.kind != "local":
        yield
    elif _local_model_lock.acquire(blocking=False):
        try:
            yield
        finally:
            _local_model_lock.release()
    else:
        raise LocalModelBusy


def _save_facts(
    job: ExtractionTask,
    memory: UserMemory,
    parsed: ParsedFacts,
    *,
    quotable: Container[int],
) -> None:
    if parsed.dropped:
        logger.info(
            "extraction task %s: %d facts proposed, dropped: %s",
            job.task.pk,
            parsed.total,
            ", ".join(f"{count} {reason}" for reason, count in parsed.dropped.items()),
        )
    contents = [tokenizer.strip_subject(draft.content) for draft in parsed.drafts]
    vectors, errors = embedding.embed_texts(memory.embedder, contents)
    with job.locked():
        places = _find_places(draft.message_id for draft in parsed.drafts)
        texts = [
            (_placed(draft, places[draft.message_id], memory), vector, error)
            for draft, vector, error in zip(parsed.drafts, vectors, errors, strict=True)
            if draft.message_id in places
        ]
        drafts = [draft for draft, _, _ in texts]
        saved = fact_store.save_drafts(
            job.user_id,
            drafts,
            [vector for _, vector, _ in texts],
            by="extraction",
            threshold=memory.user_state.dedup_threshold,
            errors=[error for _, _, error in texts],
        )
        _raise_importance(drafts, saved, quotable=quotable)
        changed = sum(result.outcome != "unchanged" for result in saved)
        held = sum(result.outcome == "pending_review" for result in saved)
        job.complete(found=parsed.total, saved=changed, held=held)
    _withhold_late(job, drafts, saved)


def _placed(draft: FactDraft, place: _Place, memory: UserMemory) -> FactDraft:
    """Return a draft with the scope of the thread that its message is in now."""
    scope = scope_key(memory.memory.scope, draft.agent, place.thread)
    return replace(draft, scope=scope, held_for=memory.user_state.held_for)


def _withhold_late(
    job: ExtractionTask, drafts: Sequence[FactDraft], saved: Sequence[SaveResult]
) -> None:
    """Withhold messages that mention facts which were forgotten in the meantime."""
    past = [
        (result.fact_id, draft.message_id)
        for draft, result in zip(drafts, saved, strict=True)
        if result.outcome == "outdated" and draft.message_id is not None
    ]
    if past:
        facts = Fact.objects.filter(pk__in={fact_id for fact_id, _ in past})
        forgotten = set(facts.with_status("deleted").values_list("pk", flat=True))
        mentioning = [number for fact_id, number in past if fact_id in forgotten]
        withholding.withhold(job.user_id, mentioning)


def _raise_importance(
    drafts: Sequence[FactDraft],
    saved: Sequence[SaveResult],
    *,
    quotable: Container[int],
) -> None:
    """Raise the importance of the source messages to that of their facts."""
    importances: dict[int, float] = {}
    for draft, result in zip(drafts, saved, strict=True):
        message_id = draft.message_id
        # An inactive fact must not reach prompts through its source message.
        is_active = result.outcome not in ("pending_review", "outdated")
        if message_id is not None and message_id in quotable and is_active:
            importance = max(importances.get(message_id, 0.0), draft.importance / 10)
            importances[message_id] = importance
    # Always in the same order, so that two transactions cannot deadlock.
    for message_id, importance in sorted(importances.items()):
        StoredMessage.objects.filter(pk=message_id, importance__lt=importance).update(
            importance=importance
        )
