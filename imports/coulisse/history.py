"""Messages: each user has one conversation in the Rust version, our default thread."""

import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from core import token_estimates
from core.ids import UserId
from core.messages import Message, Role
from core.text.injection import injection_filter
from imports.coulisse import users
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    read_text,
    read_time,
    read_uuid,
    row_name,
)
from imports.report import Report, batch
from memory.config import MemoryConfig
from memory.extraction.extraction_worker import MAX_QUOTED_CHARS, MAX_SEARCH_CHARS
from memory.models import Passage, StoredMessage, Thread
from memory.recall.query_embedding import NO_VECTOR

KIND = "messages"
COLUMNS = ("id", "user_id", "role", "content", "created_at")
ROLES = ("user", "assistant")
DEFAULT_THREAD = ""
MAX_TURN_MESSAGES = 50
"""Messages without a reply that are stored as one turn."""
BATCH_MESSAGES = 500


@dataclass
class ImportedTurn:
    """Messages of a user up to a reply."""

    messages: list[tuple[uuid.UUID, Role, str, datetime]] = field(default_factory=list)
    """The id, the role, the text and the time of each."""

    @property
    def is_complete(self) -> bool:
        return bool(self.messages) and self.messages[-1][1] == "assistant"

    @property
    def id(self) -> uuid.UUID:
        """The turn's id in the Rust version: that of the reply."""
        return self.messages[-1][0]

    def without_known(self, known: Collection[uuid.UUID]) -> "ImportedTurn":
        """Return what follows the last message that is the id of a stored turn.

        That is all or nothing, except of a turn that got its reply between two runs.
        """
        for number in range(len(self.messages), 0, -1):
            if self.messages[number - 1][0] in known:
                return ImportedTurn(self.messages[number:])
        return self


def import_history(
    source: SourceDatabase, settings: MemoryConfig, report: Report
) -> None:
    if not source.has("messages", KIND, report):
        return
    for row in source.query("SELECT DISTINCT user_id FROM messages ORDER BY user_id"):
        turns: list[ImportedTurn] = []
        user_id: UserId | None = None
        for user_id, turn in _read_turns(source, row["user_id"], report):
            turns.append(turn)
            if sum(len(each.messages) for each in turns) >= BATCH_MESSAGES:
                _write(user_id, turns, settings, report)
                turns = []
        if turns and user_id is not None:
            _write(user_id, turns, settings, report)


def _read_turns(
    source: SourceDatabase, user: object, report: Report
) -> Iterator[tuple[UserId, ImportedTurn]]:
    """Yield the turns of a user, the oldest first."""
    turn = ImportedTurn()
    user_id: UserId | None = None
    for rows in source.batches(
        "messages",
        COLUMNS,
        kind=KIND,
        report=report,
        where="user_id IS ?",
        values=[user],
    ):
        for row in rows:
            try:
                user_id = users.read_user(row)
                message = _read_message(row)
            except RowDamaged as exc:
                report.skip(KIND, row_name(row), str(exc))
                continue
            is_next = turn.is_complete and message[1] == "user"
            if is_next or len(turn.messages) >= MAX_TURN_MESSAGES:
                yield user_id, turn
                turn = ImportedTurn()
            turn.messages.append(message)
    if turn.messages and user_id is not None:
        yield user_id, turn


def _read_message(row: Row) -> tuple[uuid.UUID, Role, str, datetime]:
    role = read_text(row, "role")
    if role not in ROLES:
        raise RowDamaged(f"the role '{role:.40}' is neither user nor assistant")
    content = read_text(row, "content")
    return (
        read_uuid(row, "id"),
        cast(Role, role),
        content,
        read_time(row, "created_at"),
    )


def _write(
    user_id: UserId, turns: list[ImportedTurn], settings: MemoryConfig, report: Report
) -> None:
    """Append the turns that the user's thread does not have."""
    with batch(report):
        # Until this is stored, no other run may look for the turns.
        Thread.objects.lock_of_user(user_id)
        ids = [message[0] for turn in turns for message in turn.messages]
        replies = StoredMessage.objects.replies(user_id, ids)
        known = set(replies.values_list("turn_id", flat=True))
        new = [rest for turn in turns if (rest := turn.without_known(known)).messages]
        written = sum(len(turn.messages) for turn in new)
        report.count(KIND, written=written, existing=len(ids) - written)
        if new:
            _append(user_id, new, written, settings)


def _append(
    user_id: UserId, turns: list[ImportedTurn], count: int, settings: MemoryConfig
) -> None:
    last_at = turns[-1].messages[-1][3]
    stored = Thread.objects.filter(user_id=user_id, name=DEFAULT_THREAD).first()
    at = last_at if stored is None else max(last_at, stored.updated_at)
    thread_id, length = Thread.objects.reserve_positions(
        user_id, DEFAULT_THREAD, count, at
    )
    if stored is None:
        first_at = turns[0].messages[0][3]
        Thread.objects.filter(pk=thread_id).update(created_at=first_at)
    rows = [
        StoredMessage(thread_id=thread_id, position=position, **values)
        for position, values in enumerate(_columns(turns, settings), length - count)
    ]
    _index(user_id, thread_id, StoredMessage.objects.bulk_create(rows, BATCH_MESSAGES))


def _columns(
    turns: list[ImportedTurn], settings: MemoryConfig
) -> Iterator[dict[str, Any]]:
    for turn in turns:
        for number, role, text, created_at in turn.messages:
            is_last = number == turn.id
            # As of a turn that failed: its user's messages have no reply.
            finish_reason = "stop" if role == "assistant" else "error"
            yield {
                "turn_id": turn.id,
                "role": role,
                "text": text,
                "tokens": token_estimates.estimate_message(Message(role, text)),
                "finish_reason": finish_reason if is_last else "",
                "importance": getattr(settings.importance, role),
                "created_at": created_at,
            }


def _index(user_id: UserId, thread_id: int, rows: Iterable[StoredMessage]) -> None:
    """Let searches find messages by words; a periodic job adds their vectors."""
    texts = [
        (row.pk, row.position, row.text[:MAX_SEARCH_CHARS], None, NO_VECTOR)
        for row in rows
        if row.text.strip()
        and not injection_filter.find_injection("", row.text[:MAX_QUOTED_CHARS])
    ]
    Passage.objects.index_messages(user_id, thread_id, texts)
