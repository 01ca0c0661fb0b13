"""Messages: each user has one conversation in the Rust version, our default thread."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, cast

from core import token_estimates
from core.ids import UserId
from core.messages import Message, Role
from core.text.injection import injection_filter
from imports.coulisse import users
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    Table,
    read_text,
    read_time,
    read_uuid,
)
from imports.report import batch
from memory.config import MemoryConfig
from memory.extraction.extraction_worker import MAX_QUOTED_CHARS
from memory.models import Passage, StoredMessage, Thread
from memory.models.passages import MAX_SEARCH_CHARS
from memory.recall.query_embedding import NO_VECTOR

MESSAGES = Table(
    "messages",
    "messages",
    ("id", "user_id", "role", "content", "created_at"),
)
ROLES = ("user", "assistant")
DEFAULT_THREAD = ""
MAX_TURN_MESSAGES = 50
"""Messages without a reply that are stored as one turn."""
BATCH_TURNS = 250
MAX_AGENT_LENGTH = 255
AGENTS_QUERY = """
    SELECT correlation_id turn, json_extract(payload, '$.agent') agent FROM events
    WHERE kind = 'turn_start' AND json_valid(payload) AND correlation_id IN
"""


class ImportedMessage(NamedTuple):
    id: uuid.UUID
    role: Role
    text: str
    created_at: datetime


@dataclass
class ImportedTurn:
    """Messages of a user up to a reply."""

    messages: list[ImportedMessage] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return bool(self.messages) and self.messages[-1].role == "assistant"

    @property
    def id(self) -> uuid.UUID:
        """The turn's id in the Rust version: that of the reply."""
        return self.messages[-1].id

    def without_known(self, known: Collection[uuid.UUID]) -> "ImportedTurn":
        """Return what follows the last message that is the id of a stored turn.

        That is all or nothing, except of a turn that got its reply between two runs.
        """
        for number in range(len(self.messages), 0, -1):
            if self.messages[number - 1].id in known:
                return ImportedTurn(self.messages[number:])
        return self


@dataclass(frozen=True)
class HistoryImport:
    """Imports the messages of one user after the other."""

    source: SourceDatabase
    settings: MemoryConfig

    def run(self) -> None:
        for user in self.source.users(MESSAGES.name):
            turns: list[ImportedTurn] = []
            for user_id, turn in self._read_turns(user):
                turns.append(turn)
                if len(turns) == BATCH_TURNS:
                    self._write(user_id, turns)
                    turns = []
            if turns:
                self._write(user_id, turns)

    def _read_turns(self, user: object) -> Iterator[tuple[UserId, ImportedTurn]]:
        """Yield the turns of a user, the oldest first."""
        turn = ImportedTurn()
        user_id: UserId | None = None
        for rows in self.source.batches(MESSAGES, "user_id IS ?", [user]):
            for user_id, message in self.source.read_rows(MESSAGES, rows, _read_row):
                is_next = turn.is_complete and message.role == "user"
                if is_next or len(turn.messages) >= MAX_TURN_MESSAGES:
                    yield user_id, turn
                    turn = ImportedTurn()
                turn.messages.append(message)
        if turn.messages and user_id is not None:
            yield user_id, turn

    def _write(self, user_id: UserId, turns: Sequence[ImportedTurn]) -> None:
        """Append the turns that the user's thread does not have."""
        with batch(self.source.report):
            # Until this is stored, no other run may look for the turns.
            Thread.objects.lock_of_user(user_id)
            ids = [message.id for turn in turns for message in turn.messages]
            replies = StoredMessage.objects.replies(user_id, ids)
            known = set(replies.values_list("turn_id", flat=True))
            rest = [turn.without_known(known) for turn in turns]
            new = [turn for turn in rest if turn.messages]
            written = sum(len(turn.messages) for turn in new)
            self.source.report.count(
                MESSAGES.kind, written=written, existing=len(ids) - written
            )
            if new:
                self._append(user_id, new, written)

    def _append(
        self, user_id: UserId, turns: Sequence[ImportedTurn], count: int
    ) -> None:
        last_at = turns[-1].messages[-1].created_at
        stored = Thread.objects.filter(user_id=user_id, name=DEFAULT_THREAD).first()
        at = last_at if stored is None else max(last_at, stored.updated_at)
        thread_id, length = Thread.objects.reserve_positions(
            user_id, DEFAULT_THREAD, count, at
        )
        if stored is None:
            first_at = turns[0].messages[0].created_at
            Thread.objects.filter(pk=thread_id).update(created_at=first_at)
        rows = [
            StoredMessage(thread_id=thread_id, position=position, **columns)
            for position, columns in enumerate(self._columns(turns), length - count)
        ]
        _index(user_id, thread_id, StoredMessage.objects.bulk_create(rows, 500))

    def _columns(self, turns: Sequence[ImportedTurn]) -> Iterator[dict[str, Any]]:
        agents = self._find_agents([turn.id for turn in turns if turn.is_complete])
        for turn in turns:
            for number, role, text, created_at in turn.messages:
                is_reply = role == "assistant"
                # As of a turn that failed: its user's messages have no reply.
                finish_reason = "stop" if is_reply else "error"
                yield {
                    "turn_id": turn.id,
                    "role": role,
                    "text": text,
                    "tokens": token_estimates.estimate_message(Message(role, text)),
                    "agent": agents.get(turn.id, "") if is_reply else "",
                    "finish_reason": finish_reason if number == turn.id else "",
                    "importance": getattr(self.settings.importance, role),
                    "created_at": created_at,
                }

    def _find_agents(self, turn_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Return the agents of turns, as far as they are recorded."""
        if "events" not in self.source.tables:
            return {}
        marks = ", ".join("?" * len(turn_ids))
        rows = self.source.query(f"{AGENTS_QUERY} ({marks})", list(map(str, turn_ids)))
        return {
            uuid.UUID(row["turn"]): row["agent"][:MAX_AGENT_LENGTH]
            for row in rows
            if isinstance(row["agent"], str)
        }


def _read_row(row: Row) -> tuple[UserId, ImportedMessage]:
    role = read_text(row, "role")
    if role not in ROLES:
        raise RowDamaged(f"the role '{role:.40}' is neither user nor assistant")
    text, created_at = read_text(row, "content"), read_time(row, "created_at")
    message = ImportedMessage(read_uuid(row, "id"), cast(Role, role), text, created_at)
    return users.read_user(row), message


def _index(user_id: UserId, thread_id: int, rows: Iterable[StoredMessage]) -> None:
    """Let searches find messages by words; a periodic job adds their vectors."""
    texts = [
        (row.pk, row.position, row.text[:MAX_SEARCH_CHARS], None, NO_VECTOR)
        for row in rows
        if row.text.strip()
        and not injection_filter.find_injection("", row.text[:MAX_QUOTED_CHARS])
    ]
    Passage.objects.index_messages(user_id, thread_id, texts)
