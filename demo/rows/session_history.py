"""Sessions of a user's threads, their episodes and ratings, and states of agents."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from demo import simulated_turns
from demo.dialogues import ScriptedDialogue
from demo.rows.bulk_insert import DemoRows
from demo.rows.fact_history import FactHistory
from demo.rows.turn_records import ThreadTranscript
from memory.config import SessionConfig
from memory.models import AgentState, Session
from memory.models.sessions import EndReason

IDLE = timedelta(minutes=SessionConfig().idle_minutes)
CLOSING = timedelta(seconds=30)
"""Between the end of a session and its episode."""
RATED_SHARE = 0.15
"""Share of sessions that users end themselves, with a score."""
FAILURE_SHARE = 0.01
"""Share of episodes that could not be written."""
UNREADABLE = "the model's reply is not JSON: 'Summary of the conversation: …'"
COMMENTS = (
    (6, ("I had to explain it twice.", "It took too long.", "")),
    (10, ("Exactly what I needed.", "Friendly and quick.", "", "")),
)
"""Comments with scores up to a number."""


@dataclass
class OpenSession:
    """A session that has not ended yet."""

    thread: ThreadTranscript
    first_position: int
    started_at: datetime
    episode: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether all of its turns have failed."""
        return self.thread.length == self.first_position


@dataclass
class SessionHistory(DemoRows):
    """The sessions of one user, until they are written."""

    _facts: FactHistory
    _open: dict[int, OpenSession] = field(default_factory=dict)
    """By thread."""
    _states: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    """Rows by thread and agent."""

    def begin(self, thread: ThreadTranscript, at: datetime) -> None:
        """Begin a session, unless that of the thread goes on."""
        session = self._open.get(thread.id)
        if session is None or session.is_empty:
            self._open[thread.id] = OpenSession(thread, thread.length, at)
        elif at >= thread.updated_at + IDLE:
            self._end(session)
            self._open[thread.id] = OpenSession(thread, thread.length, at)

    def note(
        self, thread: ThreadTranscript, dialogue: ScriptedDialogue, *, is_ended: bool
    ) -> None:
        """Note a dialogue of the session, and whether it came to its end."""
        if is_ended:
            self._open[thread.id].episode = dialogue.episode
        if is_ended and dialogue.state:
            self._states[thread.id, dialogue.agent] = {
                "data": orjson.dumps(dialogue.state).decode(),
                "updated_at": thread.updated_at,
            }

    def close(self, now: datetime) -> None:
        """Write the states, and the sessions that have ended.

        The others have no row, and are not open, so that no worker ends them.
        """
        ended_before = now - IDLE - CLOSING
        for session in self._open.values():
            if not session.is_empty and session.thread.updated_at < ended_before:
                self._end(session)
        for (thread_id, agent), columns in self._states.items():
            self._inserts.add(AgentState, thread_id=thread_id, agent=agent, **columns)

    def _end(self, session: OpenSession) -> None:
        thread = session.thread
        is_rated = self._rng.random() < RATED_SHARE
        ended_at = thread.updated_at
        closed_at = ended_at + CLOSING + (timedelta(0) if is_rated else IDLE)
        is_failed = bool(session.episode) and self._rng.random() < FAILURE_SHARE
        score, comment = self._rate() if is_rated else (None, "")
        episode_id = None
        if session.episode and not is_failed:
            episode_id = self._facts.add_episode(session.episode, ended_at, closed_at)
        self._inserts.add(
            Session,
            id=simulated_turns.random_uuid(self._rng),
            user_id=thread.user_id,
            thread_id=thread.id,
            first_position=session.first_position,
            end_position=thread.length,
            started_at=session.started_at,
            ended_at=ended_at,
            reason=(EndReason.REQUEST if is_rated else EndReason.IDLE).value,
            closed_at=closed_at,
            episode_id=episode_id,
            error=UNREADABLE if is_failed else "",
            score=score,
            comment=comment,
        )

    def _rate(self) -> tuple[int, str]:
        score = min(10, max(1, round(self._rng.gauss(7.6, 1.9))))
        comments = next(texts for highest, texts in COMMENTS if score <= highest)
        return score, self._rng.choice(comments)
