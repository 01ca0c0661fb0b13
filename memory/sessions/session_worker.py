"""Closes ended sessions: writes their episodes.

An episode is a fact of the category `episode`, so that it is searched, exported,
forgotten and erased as facts are. See docs/sessions.md.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from django.db import transaction

from config import live
from core.errors import public_text
from core.ids import UserId, pseudonym
from memory import memory_settings
from memory.extraction import date_parsing, llm_call
from memory.extraction.extraction_worker import ExtractionFailed, is_retryable
from memory.extraction.prompts import DIALOGUE_ROLES, PromptMessage
from memory.facts import candidates, forgetting
from memory.memory_settings import ExtractionModel, UserMemory
from memory.models import Fact, Owner, Session, Thread
from memory.recall import embedding
from memory.recall.types import UNEMBEDDED, EmbeddingResult
from memory.sessions import episode_prompts, session_end
from memory.sessions.episode_prompts import Episode, EpisodeInvalid
from tasks.errors import LeaseLost
from tasks.models import Task

logger = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
"""Seconds until a session is looked at again whose facts are still being extracted."""
MIN_USER_CHARS = 20
"""Characters of the user below which a session has no episode ("Hi", "Thanks")."""
MAX_MESSAGES = 400
"""The last messages of a session that are read."""


def run(task: Task) -> None:
    """Write the episode of an ended session, and close it.

    Waits for the extraction of its facts. If the episode cannot be written, the session
    is closed without one, after the attempts of the task.
    """
    session = session_end.get(uuid.UUID(task.payload["session"]))
    try:
        if session is None or session.closed_at is not None:
            task.complete()
        elif _is_being_extracted(session):
            task.release(delay_seconds=WAIT_SECONDS)
        else:
            _close(task, session)
    except LeaseLost:
        logger.info("session task %s: lease lost", task.pk)
    except Exception as exc:
        _record_failure(task, session, exc)


def _is_being_extracted(session: Session) -> bool:
    jobs = Task.objects.extractions().filter(user_id=session.user_id).open()
    return jobs.filter(created_at__lte=session.ended_at).exists()


def _record_failure(task: Task, session: Session | None, exc: Exception) -> None:
    is_final = not is_retryable(exc) or task.failures + 1 >= task.max_failures
    # Without the error's text: it may quote the model, and the model the user.
    logger.warning(
        "could not write the episode of session %s of user %s: %s",
        task.payload["session"],
        pseudonym(task.user_id),
        type(exc).__name__,
    )
    if is_final and session is not None:
        _store(task, session, None, error=public_text(str(exc)))
    else:
        task.fail(exc)


def _close(task: Task, session: Session) -> None:
    memory = memory_settings.resolve_for_users(live.current())
    if memory is None:
        _store(task, session, None)
        return
    episode, text = _write_episode(session, memory), UNEMBEDDED
    if episode is not None:
        (vector,), errors = embedding.embed_texts(memory.embedder, [episode.content])
        text = vector, "".join(errors)
    _store(task, session, episode, text=text)


def _write_episode(session: Session, memory: UserMemory) -> Episode | None:
    """Return the episode of a session; None if it has none."""
    owner = Owner.objects.filter(user_id=session.user_id).first()
    settings = memory.memory.sessions
    if settings is None or not settings.episodes or owner is None:
        return None
    messages = _read_messages(session, owner)
    said = sum(len(each.text) for each in messages if each.role == "user")
    if said < MIN_USER_CHARS or not owner.is_learning_on:
        return None
    if memory.extraction_model is None:
        raise RuntimeError("no extraction model: set memory.user_state.learn_from")
    episode = _ask(memory.extraction_model, messages, UserId(session.user_id))
    return episode and _without_forgotten(UserId(session.user_id), episode)


def _read_messages(session: Session, owner: Owner) -> list[PromptMessage]:
    zone = date_parsing.get_zone(owner.time_zone)
    # Other agents recall the episode, so it has nothing of narrower scopes.
    learned = session.learned_messages.filter(passage__scope=session.scope)
    rows = learned.filter(role__in=DIALOGUE_ROLES)
    columns = rows.order_by("-position").values_list(
        "id", "position", "role", "text", "created_at"
    )
    newest = [PromptMessage(*row) for row in columns[:MAX_MESSAGES]]
    return [replace(each, at=each.at.astimezone(zone)) for each in reversed(newest)]


def _ask(
    model: ExtractionModel, messages: Sequence[PromptMessage], user_id: UserId
) -> Episode | None:
    """Call the model, and again if its reply is unreadable.

    Raises `ExtractionFailed`.
    """
    prompt = episode_prompts.build_prompt(messages)
    problem = reply = ""
    for _ in range(2):
        reply, is_whole = llm_call.call_model(
            model,
            prompt,
            response_format=episode_prompts.RESPONSE_FORMAT,
            user=user_id.hex,
        )
        try:
            return episode_prompts.parse_episode(reply)
        except EpisodeInvalid as exc:
            problem = str(exc) if is_whole else "it was cut off; write less"
            prompt = [*prompt, *episode_prompts.build_correction(reply, problem)]
    raise ExtractionFailed(problem, reply)


def _without_forgotten(user_id: UserId, episode: Episode) -> Episode | None:
    """Return an episode without parts that mention what the user has forgotten."""

    def is_known(text: str) -> bool:
        return not forgetting.mentions_forgotten_fact(user_id, text)

    if not is_known(episode.topic):
        return None
    known = Episode(
        episode.topic,
        episode.arc if is_known(episode.arc) else "",
        [loop for loop in episode.open_loops if is_known(loop)],
    )
    # Together the parts may still have all its words.
    return known if is_known(known.content) else None


def _store(
    task: Task,
    session: Session,
    episode: Episode | None,
    *,
    text: EmbeddingResult = UNEMBEDDED,
    error: str = "",
) -> None:
    """Store the episode, close the session and complete the task, all or none.

    Before that, the facts are promoted that were held until its end.
    """
    user_id = UserId(session.user_id)
    candidates.promote(user_id, session.thread_id, session.end_position)
    with transaction.atomic():
        now = datetime.now(UTC)
        owner = Owner.objects.lock(user_id, now)
        task.lock_lease()
        threads = Thread.objects.select_for_update(no_key=True)
        thread = threads.filter(pk=session.thread_id).first()
        if thread is not None and thread.revision != session.thread.revision:
            # Messages were withheld or deleted since they were read.
            task.release()
            return
        if thread is None:  # It was deleted, and the session with it.
            task.complete()
            return
        if not owner.is_learning_on:
            episode = None
        fact = _new_fact(session, episode, now, text) if episode else None
        session.close(now, episode=fact, error=error)
        task.complete()


def _new_fact(
    session: Session, episode: Episode, now: datetime, text: EmbeddingResult
) -> Fact:
    is_held = candidates.needs_consent()
    fact = Fact(
        user_id=session.user_id,
        content=episode.content,
        category="episode",
        scope=session.scope,
        status="pending_review" if is_held else "active",
        held_for="consent" if is_held else "",
        source="extraction",
        said_at=session.ended_at,
        created_at=now,
        updated_at=now,
    )
    action = "flagged" if is_held else "created"
    fact.record_creation(action, by="extraction", text=text)
    Fact.objects.write(session.user_id, [fact])
    return fact
