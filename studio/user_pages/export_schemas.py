"""What an export of a user holds."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from studio.user_pages.fact_detail import FactWithHistory
from telemetry.schemas import TurnObject
from telemetry.types import Origin


class ExportedSettings(BaseModel):
    """What is kept of the user themselves."""

    time_zone: str | None
    known_since: datetime | None
    erasure_asked_until: datetime | None


class ExportedMessage(BaseModel):
    """A message as it was said, and what is kept beside it."""

    role: Literal["assistant", "developer", "system", "tool", "user"]
    content: str | list[dict[str, Any]] | None = Field(
        description="A text, or parts as clients send them."
    )
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[dict[str, Any]] = Field([], description="As clients get them.")
    reasoning: list[dict[str, Any]] = Field([], description="As its provider said it.")
    position: int
    turn_id: UUID
    agent: str | None
    finish_reason: str | None
    importance: float
    tokens: int
    created_at: int
    summarised_at: datetime | None


class ExportedThread(BaseModel):
    """A conversation, the oldest message first."""

    thread_id: str | None
    created_at: int
    updated_at: int
    messages: list[ExportedMessage]


class ExportedSummary(BaseModel):
    """What was made of older messages."""

    thread_id: str | None
    first_position: int
    end_position: int
    text: str
    tokens: int
    model: str
    created_at: int


class ExportedExtraction(BaseModel):
    """A turn that was learnt from, and how that went."""

    thread_id: str | None
    turn_id: UUID
    first_position: int
    end_position: int
    agent: str
    time_zone: str | None
    state: str
    attempts: int
    due_at: datetime | None
    error: str | None
    reply: str | None
    facts_found: int | None
    facts_saved: int | None
    created_at: int
    finished_at: datetime | None


class ExportedPassage(BaseModel):
    """What searches find, without the vectors."""

    memory_id: str | None
    thread_id: str | None
    position: int | None
    is_question: bool
    embedder: str | None
    dimensions: int | None
    embedding_error: str | None


class ExportedTurn(TurnObject):
    """A turn with all it called."""

    origin: Origin  # type: ignore[assignment]


class ExportedConnection(BaseModel):
    """An MCP server the user signed in to, without the tokens."""

    server: str
    url: str
    scopes: list[str]
    connected_at: datetime
    updated_at: datetime
    expires_at: datetime | None


class ExportedToken(BaseModel):
    """An API token that acts for the user."""

    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class ExportedTask(BaseModel):
    """Work that was done for the user."""

    id: UUID
    kind: str
    state: Literal["queued", "running", "done", "errored", "cancelled"]
    agent: str
    prompt: str
    result: str | None
    error: str | None
    origin: str
    created_at: datetime
    finished_at: datetime | None


class ExportedScore(BaseModel):
    """What a judge says of a reply."""

    turn_id: UUID
    judge: str
    criterion: str
    score: int
    reasoning: str
    agent: str
    experiment: str | None
    origin: Origin
    judged_at: datetime


class ExportedFeedback(BaseModel):
    """What the user says of a reply."""

    turn_id: UUID
    score: int | None
    thumb: Literal["", "up", "down"] | None
    comment: str | None
    agent: str
    experiment: str | None
    created_at: datetime
    updated_at: datetime


class ExportedLine(BaseModel):
    """What a synthetic user said, or was told."""

    run: UUID
    position: int
    speaker: Literal["persona", "assistant"]
    text: str
    said_at: datetime


class ExportedRun(BaseModel):
    """A synthetic user's conversation."""

    id: UUID
    test: str
    target: str
    state: str
    verdict: str | None
    created_at: datetime
    finished_at: datetime | None


class ExportedUser(BaseModel):
    """Everything there is of a user."""

    object: Literal["user.export"]
    version: Literal[1]
    user_id: UUID
    exported_at: datetime
    settings: ExportedSettings
    threads: list[ExportedThread]
    memories: list[FactWithHistory]
    summaries: list[ExportedSummary]
    lessons: list[ExportedExtraction]
    passages: list[ExportedPassage]
    turns: list[ExportedTurn]
    connections: list[ExportedConnection]
    api_tokens: list[ExportedToken]
    tasks: list[ExportedTask]
    scores: list[ExportedScore]
    feedback: list[ExportedFeedback]
    smoke_lines: list[ExportedLine]
    smoke_runs: list[ExportedRun]
