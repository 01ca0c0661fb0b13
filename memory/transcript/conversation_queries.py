"""Queries of conversations for operators: a user's threads and messages.

They include the calls of agents' own tools. Images and files are only described.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Length

from core.ids import UserId
from core.messages import Message, Role, ToolCall
from core.text import redaction
from memory.models import Fact, Thread
from memory.models import StoredMessage as Row
from memory.transcript.message_rows import message_from_row

MAX_EXTRA_LENGTH = 200_000
"""Characters of `extra` that are read; larger values contain files."""

ThreadCursor = tuple[datetime, int]
"""The cursor of a page of threads."""


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread of a user."""

    id: int
    name: str
    """"" is the default thread."""
    messages: int
    created_at: datetime
    updated_at: datetime

    @property
    def cursor(self) -> ThreadCursor:
        return self.updated_at, self.id


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One message."""

    id: int
    position: int
    turn_id: UUID
    role: Role
    text: str
    parts: Sequence[str]
    """Its other parts by description: "image (data:image/png, 34 kB)"."""
    calls: Sequence[ToolCall]
    """The model's tool calls; the results are in the next messages."""
    tool_call_id: str
    """The id of the call whose result this message is, or ""."""
    tokens: int
    agent: str
    finish_reason: str
    importance: float
    is_summarized: bool
    """Whether prompts contain a summary instead."""
    created_at: datetime


def list_threads(
    user_id: UserId, *, after: ThreadCursor | None = None, limit: int = 20
) -> tuple[list[ThreadInfo], bool]:
    """Return a user's threads, most recently active first, and whether there are
    more."""
    rows = Thread.objects.filter(user_id=user_id)
    if after is not None:
        at, last_id = after
        earlier = Q(updated_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, updated_at__lte=at)
    page = list(rows.order_by("-updated_at", "-id")[: limit + 1])
    return [_thread_from_row(row) for row in page[:limit]], len(page) > limit


def get_thread(user_id: UserId, name: str) -> ThreadInfo | None:
    """Return a user's thread of that name, or None."""
    row = Thread.objects.filter(user_id=user_id, name=name).first()
    return None if row is None else _thread_from_row(row)


def _thread_from_row(row: Thread) -> ThreadInfo:
    return ThreadInfo(row.pk, row.name, row.length, row.created_at, row.updated_at)


def list_messages(
    thread_id: int, *, before: int | None = None, limit: int = 40
) -> tuple[list[TranscriptMessage], bool]:
    """Return the newest messages of a thread, oldest first, and whether there are more.

    `before` limits them to earlier positions. The cost does not depend on the length of
    the thread.
    """
    rows = Row.objects.filter(thread_id=thread_id)
    if before is not None:
        rows = rows.filter(position__lt=before)
    with_size = rows.annotate(size=Length("extra")).annotate(
        read=Case(
            When(size__lte=MAX_EXTRA_LENGTH, then=F("extra")),
            default=Value(""),
            output_field=TextField(),
        )
    )
    page = list(with_size.defer("extra").order_by("-position")[: limit + 1])
    return [_message_from_row(row) for row in reversed(page[:limit])], len(page) > limit


def _message_from_row(row: Any) -> TranscriptMessage:
    # The server's own secrets are always redacted.
    text, extra = redaction.redact_own(row.text), redaction.redact_own(row.read)
    message = message_from_row(cast(Role, row.role), text, extra)
    oversized = (
        [f"files ({_format_size(row.size)})"] if row.size > MAX_EXTRA_LENGTH else []
    )
    return TranscriptMessage(
        id=row.pk,
        position=row.position,
        turn_id=row.turn_id,
        role=message.role,
        text=text,
        parts=oversized or list(_part_labels(message)),
        calls=message.tool_calls,
        tool_call_id=message.tool_call_id or "",
        tokens=row.tokens,
        agent=row.agent,
        finish_reason=row.finish_reason,
        importance=row.importance,
        is_summarized=row.summarized_at is not None,
        created_at=row.created_at,
    )


def _part_labels(message: Message) -> Iterator[str]:
    content = message.content
    for part in [] if content is None or isinstance(content, str) else content:
        if part.get("type") != "text":
            yield _part_label(part)


def _part_label(part: dict[str, Any]) -> str:
    """Return what a part is, without its contents."""
    kind = str(part.get("type", "part"))
    content = part.get(kind)
    if not isinstance(content, dict):
        return kind
    url = str(content.get("url") or "")
    details = [
        str(content[name]) for name in ("filename", "format") if content.get(name)
    ]
    data = content.get("data") or content.get("file_data") or url
    if data.startswith("data:"):
        details += [data[5:].partition(";")[0], _format_size(len(data))]
    elif url:
        details.append(url)
    elif data:
        details.append(_format_size(len(data)))
    label = kind.removesuffix("_url").removeprefix("input_")
    return f"{label} ({', '.join(details)})" if details else label


def _format_size(characters: int) -> str:
    kilobytes = characters / 1000
    if kilobytes < 1000:
        return f"{max(kilobytes, 1):.0f} kB"
    return f"{kilobytes / 1000:.1f} MB"


@dataclass(frozen=True, slots=True)
class FactInfo:
    """A fact in its current state."""

    id: UUID
    message_id: int | None
    """The message it was extracted from, if known."""
    content: str
    category: str
    status: str


def list_extracted_facts(user_id: UserId, message_ids: Sequence[int]) -> list[FactInfo]:
    """Return the facts extracted from these messages of a user."""
    rows = Fact.objects.filter(user_id=user_id, message__in=message_ids)
    return _facts_from_rows(rows.order_by("created_at", "id"))


def list_recalled_facts(user_id: UserId, fact_ids: Sequence[UUID]) -> list[FactInfo]:
    """Return facts of a user in this order, without deleted ones."""
    found = _facts_from_rows(Fact.objects.filter(user_id=user_id, id__in=fact_ids))
    return sorted(found, key=lambda fact: fact_ids.index(fact.id))


def _facts_from_rows(facts: QuerySet[Fact]) -> list[FactInfo]:
    found = facts.values_list("id", "message_id", "content", "category", "status")
    return [
        FactInfo(fact_id, message_id, redaction.redact_own(content), *rest)
        for fact_id, message_id, content, *rest in found
    ]
