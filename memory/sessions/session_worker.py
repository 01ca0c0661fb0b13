"""Closes ended sessions: writes their episodes.

An episode is a fact of the category `episode`, so that it is searched, exported,
forgotten and erased as facts are. See docs/sessions.md.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from config import live
from config.agent_settings import AGENT_SETTINGS
from core.errors import public_text
from core.ids import UserId, pseudonym
from core.runtime import shared_clock
from memory import memory_settings
from memory.config import scope_key
from memory.extraction import date_parsing, llm_call
from memory.extraction.extraction_worker import ExtractionFailed, is_retryable
from memory.extraction.prompts import DIALOGUE_ROLES, PromptMessage
from memory.facts import candidates, forgetting
from memory.memory_settings import ExtractionModel
from memory.models import Fact, Owner, Session, Thread
from memory.recall import embedding
from memory.recall.query_embedding import NO_VECTOR
from memory.recall.types import EmbeddingResult
from memory.sessions import episode_prompts, session_end
from memory.sessions.episode_prompts import Episode, EpisodeInvalid
from memory.transcript import withholding
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
    """Promote the facts that an ended session holds, write its episode, and close it.

    Waits for the extraction of its facts. If the episode cannot be written, the session
    is closed without one, after the attempts of the task.
    """
    try:
        session = session_end.get(uuid.UUID(task.payload["session"]))
        if session is None or session.closed_at is not None:
            task.complete()
        elif _is_being_extracted(session):
            task.release(delay_seconds=WAIT_SECONDS)
        else:
            _close(task, session)
    except LeaseLost:
        logger.info("session task %s: lease lost", task.pk)


def _is_being_extracted(session: Session) -> bool:
    jobs = Task.objects.extractions().filter(user_id=session.user_id).open()
    return jobs.filter(created_at__lte=session.ended_at).exists()


def _close(task: Task, session: Session) -> None:
    try:
        user_id = UserId(session.user_id)
        candidates.promote(user_id, session.thread_id, session.end_position)
        _store(task, session, _write_note(session))
    except LeaseLost:
        raise
    except Exception as exc:
        # Without the error's text: it may quote the model, and the model the user.
        logger.warning(
            "could not write the episode of session %s of user %s: %s",
            session.pk,
            pseudonym(task.user_id),
            type(exc).__name__,
        )
        if is_retryable(exc) and task.failures + 1 < task.max_failures:
            task.fail(exc)
        else:
            _store(task, session, None, error=public_text(str(exc)))


@dataclass(frozen=True, slots=True)
class _Note:
    """An episode that is about to be stored."""

    episode: Episode
    scope: str
    text: EmbeddingResult


def _write_note(session: Session) -> _Note | None:
    """Return the episode of a session; None if it has none."""
    memory = memory_settings.resolve_for_users(live.current())
    owner = Owner.objects.filter(user_id=session.user_id).first()
    if memory is None or owner is None or not owner.is_learning_on:
        return None
    scope = _choose_scope(session)
    settings = memory.memory.sessions
    if scope is None or settings is None or not settings.episodes:
        return None
    messages = _read_messages(session, owner, scope)
    said = sum(len(each.text) for each in messages if each.role == "user")
    if said < MIN_USER_CHARS:
        return None
    if memory.extraction_model is None:
        raise RuntimeError("no extraction model: set memory.user_state.learn_from")
    episode = _ask(memory.extraction_model, messages, UserId(session.user_id))
    if episode is None:
        return None
    (vector,), errors = embedding.embed_texts(memory.embedder, [episode.content])
    return _Note(episode, scope, (vector, "".join(errors)))


def _choose_scope(session: Session) -> str | None:
    """Return the scope of most messages, from which something may be learned."""
    names = {
        scope_key("agent", name, "")
        for name in live.current().get(AGENT_SETTINGS)
        if not memory_settings.resolve_for_agent(live.current(), name).user_memory
    }
    return next((scope for scope in session.scopes if scope not in names), None)


def _read_messages(session: Session, owner: Owner, scope: str) -> list[PromptMessage]:
    zone = date_parsing.get_zone(owner.time_zone)
    # Other agents recall the episode, so it has nothing of narrower scopes.
    learned = session.learned_messages.filter(passage__scope=scope)
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
    is_forgotten = forgetting.forgotten_in(user_id)
    if is_forgotten(episode.topic):
        return None
    known = Episode(
        episode.topic,
        "" if is_forgotten(episode.arc) else episode.arc,
        [loop for loop in episode.open_loops if not is_forgotten(loop)],
    )
    # Together the parts may still have all its words.
    return None if is_forgotten(known.content) else known


def _store(
    task: Task, session: Session, note: _Note | None, *, error: str = ""
) -> None:
    """Store the episode, close the session and complete the task, all or none."""
    user_id = UserId(session.user_id)
    with transaction.atomic():
        now = shared_clock.now()
        withholding.lock_user(user_id)
        task.lock_lease()
        thread = Thread.objects.filter(pk=session.thread_id).first()
        if thread is not None and thread.revision != session.thread.revision:
            # Messages were withheld or deleted since they were read.
            task.release()
            return
        if thread is not None:  # It was not deleted, and the session with it.
            fact = _new_fact(session, note, now) if note else None
            session.close(now, episode=fact, error=error)
        task.complete()


def _new_fact(session: Session, note: _Note, now: datetime) -> Fact | None:
    """Store an episode under the user's lock; None if it is not wanted any more."""
    user_id = UserId(session.user_id)
    # Now: something may have been forgotten since the messages were read.
    episode = _without_forgotten(user_id, note.episode)
    if episode is None or not Owner.objects.of_user(user_id).is_learning_on:
        return None
    is_held = candidates.needs_consent()
    times = session.messages.order_by("-position").values_list("created_at", flat=True)
    fact = Fact(
        user_id=user_id,
        content=episode.content,
        category="episode",
        scope=note.scope,
        status="pending_review" if is_held else "active",
        held_for="consent" if is_held else "",
        source="extraction",
        said_at=times.first() or session.ended_at,
        created_at=now,
        updated_at=now,
    )
    action = "flagged" if is_held else "created"
    text = note.text if episode == note.episode else (None, NO_VECTOR)
    fact.record_creation(action, by="extraction", text=text)
    Fact.objects.write(user_id, [fact])
    return fact
