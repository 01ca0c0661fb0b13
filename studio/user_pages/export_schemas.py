"""The schema of a user's export."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from studio.user_pages.fact_detail import FactWithHistory
from telemetry.schemas import TurnObject
from telemetry.types import Origin


class ExportedSettings(BaseModel):
    """The stored settings of the user."""

    time_zone: str | None
    first_seen_at: datetime | None
    erasure_expires_at: datetime | None


class ExportedMessage(BaseModel):
    """A message with its metadata."""

    role: Literal["assistant", "developer", "system", "tool", "user"]
    content: str | list[dict[str, Any]] | None = Field(
        description="A text, or content parts of the API."
    )
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[dict[str, Any]] = Field(
        [], description="In the format of the API."
    )
    reasoning: list[dict[str, Any]] = Field(
        [], description="In the format of the provider."
    )
    position: int
    turn_id: UUID
    agent: str | None
    finish_reason: str | None
    importance: float
    tokens: int
    created_at: int
    summarized_at: datetime | None


class ExportedThread(BaseModel):
    """A conversation, the oldest message first."""

    thread_id: str | None
    created_at: int
    updated_at: int
    messages: list[ExportedMessage]


class ExportedSummary(BaseModel):
    """A summary of older messages."""

    thread_id: str | None
    first_position: int
    end_position: int
    text: str
    tokens: int
    model: str
    created_at: int


class ExportedExtraction(BaseModel):
    """The extraction job of a turn, and its result."""

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
    """A searchable passage, without its vectors."""

    memory_id: str | None
    thread_id: str | None
    position: int | None
    is_question: bool
    embedder: str | None
    dimensions: int | None
    embedding_error: str | None


class ExportedTurn(TurnObject):
    """A turn with all its calls."""

    origin: Origin  # type: ignore[assignment]


class ExportedConnection(BaseModel):
    """An MCP server that the user connected, without the tokens."""

    server: str
    url: str
    scopes: list[str]
    connected_at: datetime
    updated_at: datetime
    expires_at: datetime | None


class ExportedToken(BaseModel):
    """An API token that belongs to the user."""

    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class ExportedTask(BaseModel):
    """A task that was run for the user."""

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
    """A judge's score of a reply."""

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
    """The user's feedback on a reply."""

    turn_id: UUID
    score: int | None
    thumb: Literal["", "up", "down"] | None
    comment: str | None
    agent: str
    experiment: str | None
    created_at: datetime
    updated_at: datetime


class ExportedSmokeMessage(BaseModel):
    """A message to or from a synthetic user."""

    run: UUID
    position: int
    speaker: Literal["persona", "assistant"]
    text: str
    sent_at: datetime


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
    """All data of a user."""

    object: Literal["user.export"]
    version: Literal[1]
    user_id: UUID
    exported_at: datetime
    settings: ExportedSettings
    threads: list[ExportedThread]
    memories: list[FactWithHistory]
    summaries: list[ExportedSummary]
    extraction_jobs: list[ExportedExtraction]
    passages: list[ExportedPassage]
    turns: list[ExportedTurn]
    connections: list[ExportedConnection]
    api_tokens: list[ExportedToken]
    tasks: list[ExportedTask]
    scores: list[ExportedScore]
    feedback: list[ExportedFeedback]
    smoke_messages: list[ExportedSmokeMessage]
    smoke_runs: list[ExportedRun]
