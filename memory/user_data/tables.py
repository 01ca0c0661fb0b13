"""The tables of user data in this app, for export and erasure."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import orjson
from django.db.models import BigIntegerField, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from pydantic import AliasPath, BeforeValidator, Field, model_validator

from api_base.field_types import NullIfEmpty, UnixSeconds
from core.errors import public_text
from core.ids import UserId
from core.messages import Reasoning, Role, ToolCall
from database.user_data import Export, ExportedRow, UserTable
from memory.api.schemas import FactId, FactWithHistory
from memory.extraction import extraction_tasks
from memory.models import (
    AgentState,
    Fact,
    FactChange,
    FactMessage,
    Owner,
    Passage,
    PendingForgetting,
    Session,
    StoredCompletion,
    StoredMessage,
    Summary,
    Thread,
)
from memory.transcript.message_rows import message_from_row, visible_message
from tasks.models import EXTRACTION, Task, TaskQuerySet

Omitted = Field(default=None, exclude_if=lambda value: not value)
"""A field that is left out if it has no value."""
PublicError = Annotated[
    str | None, BeforeValidator(lambda error: public_text(error) or None)
]
ThreadName = Annotated[NullIfEmpty, Field(validation_alias=AliasPath("thread", "name"))]


class ExportedMessage(ExportedRow):
    """A message with its metadata."""

    role: Role
    content: str | list[dict[str, Any]] | None = Field(
        description="A text, or content parts of the API."
    )
    name: str | None = Omitted
    tool_call_id: str | None = Omitted
    tool_calls: list[ToolCall] | None = Omitted
    reasoning: list[Reasoning] | None = Omitted
    position: int
    turn_id: UUID
    agent: NullIfEmpty
    finish_reason: NullIfEmpty
    importance: float
    tokens: int
    created_at: UnixSeconds
    summarized_at: datetime | None
    is_active: bool = Field(
        description="False on another branch than the thread's current one."
    )
    is_withheld: bool = Field(
        description="Whether no model receives it: it tells a forgotten fact, or was "
        "refused by a safety check."
    )
    parent_position: int | None = Field(
        description="The message before it, where a branch begins; -1 if none is."
    )

    @classmethod
    def from_row(
        cls, row: StoredMessage, *, shows_calls: bool
    ) -> "ExportedMessage | None":
        """Return a message; calls of agents' own tools only with `shows_calls`.

        Returns None if nothing remains.
        """
        convert = message_from_row if shows_calls else visible_message
        message = convert(row.role, row.text, row.extra)  # type: ignore[arg-type]
        if message is None:
            return None
        content = ("role", "content", "name", "tool_call_id", "tool_calls", "reasoning")
        fields = {name: getattr(message, name) for name in content}
        others = cls.model_fields.keys() - fields.keys()
        fields |= {name: getattr(row, name) for name in others}
        return cls.model_validate(fields)


class ExportedThread(ExportedRow):
    """A conversation, the oldest message first."""

    thread_id: NullIfEmpty = Field(validation_alias="name")
    title: str | None = Omitted
    metadata: Annotated[
        dict[str, str] | None,
        BeforeValidator(lambda text: orjson.loads(text) if text else None),
    ] = Omitted
    created_at: UnixSeconds
    updated_at: UnixSeconds
    messages: Annotated[list[ExportedMessage], BeforeValidator(lambda _: [])]


class ExportedCompletion(ExportedRow):
    """A chat completion that its client can list; its messages are in their thread."""

    turn_id: UUID = Field(validation_alias=AliasPath("message", "turn_id"))
    metadata: dict[str, str]


class ExportedSummary(ExportedRow):
    """A summary of older messages."""

    thread_id: ThreadName
    first_position: int
    end_position: int
    text: str
    tokens: int
    model: str
    created_at: UnixSeconds


class ExportedState(ExportedRow):
    """What an agent keeps of a conversation."""

    thread_id: ThreadName
    agent: str
    state: dict[str, Any] = Field(validation_alias="values")
    updated_at: UnixSeconds


class ExportedExtraction(ExportedRow):
    """The extraction of facts from a turn, and its result."""

    thread_id: NullIfEmpty
    turn_id: UUID
    first_position: int
    end_position: int
    agent: str
    time_zone: NullIfEmpty
    state: str
    attempts: int
    due_at: datetime | None
    error: PublicError
    reply: NullIfEmpty
    facts_found: int | None
    facts_saved: int | None
    created_at: UnixSeconds
    finished_at: datetime | None

    @model_validator(mode="before")
    @classmethod
    def _read_task(cls, task: Any) -> Any:
        result = extraction_tasks.read_result(task)
        return {
            **{name: getattr(task, name, None) for name in cls.model_fields},
            "thread_id": task.thread_name or "",
            "first_position": task.payload["first"],
            "end_position": task.payload["end"],
            "time_zone": task.payload["time_zone"],
            "state": "failed" if task.state == "errored" else task.state,
            "error": task.error or result.skipped,
            "reply": result.reply,
            "facts_found": result.found,
            "facts_saved": result.saved,
        }


class ExportedPassage(ExportedRow):
    """A searchable passage, without its vectors."""

    memory_id: FactId | None = Field(validation_alias="fact_id")
    thread_id: ThreadName = None
    position: int | None
    is_question: bool
    embedder: NullIfEmpty
    dimensions: int | None
    embedding_error: PublicError


class ExportedSession(ExportedRow):
    """A session of a thread; its episode is among the memories."""

    thread_id: ThreadName
    first_position: int
    end_position: int
    started_at: UnixSeconds
    ended_at: UnixSeconds
    reason: str
    memory_id: FactId | None = Field(validation_alias="episode_id")
    error: PublicError
    score: int | None
    comment: NullIfEmpty


def _facts_of(user_id: UserId) -> QuerySet[Fact]:
    history = FactChange.objects.order_by("at", "pk")
    return Fact.objects.filter(user_id=user_id).prefetch_related(
        Prefetch("changes", queryset=history, to_attr="history")
    )


def _completions_of(user_id: UserId) -> QuerySet[StoredCompletion]:
    of_user = StoredCompletion.objects.filter(user_id=user_id)
    return of_user.select_related("message")


def _summaries_of(user_id: UserId) -> QuerySet[Summary]:
    # Via the thread, which has an index.
    of_user = Summary.objects.filter(thread__user_id=user_id)
    return of_user.select_related("thread")


def _sessions_of(user_id: UserId) -> QuerySet[Session]:
    return Session.objects.filter(user_id=user_id).select_related("thread")


def _states_of(user_id: UserId) -> QuerySet[AgentState]:
    of_user = AgentState.objects.filter(thread__user_id=user_id)
    return of_user.select_related("thread")


def _extractions_of(user_id: UserId) -> TaskQuerySet:
    thread_id = Cast(KeyTextTransform("thread", "payload"), BigIntegerField())
    threads = Thread.objects.filter(pk=OuterRef("thread_pk")).values("name")
    of_user = Task.objects.extractions().filter(user_id=user_id)
    return of_user.annotate(thread_pk=thread_id, thread_name=Subquery(threads))


def _passages_of(user_id: UserId) -> QuerySet[Passage]:
    of_user = Passage.objects.filter(user_id=user_id)
    # The text is in the lists above; the encoded forms are not readable.
    return of_user.select_related("thread").defer("terms", "window_terms", "vector")


TABLES = (
    # Includes their messages.
    UserTable("threads", Thread, erased=46, export=Export("threads", ExportedThread)),
    UserTable(
        "completions",
        StoredCompletion,
        erased=39,
        export=Export("completions", ExportedCompletion, _completions_of),
    ),
    UserTable("messages", StoredMessage, erased=45, through="thread"),
    # Includes their history.
    UserTable(
        "facts", Fact, erased=42, export=Export("memories", FactWithHistory, _facts_of)
    ),
    UserTable("fact_changes", FactChange, erased=41),
    UserTable("fact_messages", FactMessage, erased=38, through="fact"),
    UserTable(
        "summaries",
        Summary,
        erased=44,
        through="thread",
        export=Export("summaries", ExportedSummary, _summaries_of),
    ),
    UserTable(
        "agent_states",
        AgentState,
        erased=35,
        through="thread",
        export=Export("agent_states", ExportedState, _states_of),
    ),
    UserTable(
        "extraction_jobs",
        Task,
        erased=43,
        where=Q(kind=EXTRACTION),
        export=Export("extraction_jobs", ExportedExtraction, _extractions_of),
    ),
    UserTable(
        "passages",
        Passage,
        erased=40,
        export=Export("passages", ExportedPassage, _passages_of),
    ),
    UserTable("pending_forgettings", PendingForgetting, erased=37),
    UserTable(
        "sessions",
        Session,
        erased=36,
        export=Export("sessions", ExportedSession, _sessions_of),
    ),
    # Last, because an erasure holds its lock.
    UserTable("owners", Owner, erased=90),
)
