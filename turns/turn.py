"""A turn: what a client asks, and what is known once it is ready to run."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from access.users.caller import ANONYMOUS, Caller
from agents.config import AgentConfig
from agents.loop import ToolSet
from config.sections import Config
from core import trace
from core.ids import TurnId, UserId
from core.messages import Message
from core.reply import Reply
from core.tools import Tool
from core.trace import Call
from memory.config import MemoryConfig
from memory.extraction.job_queue import ExtractionRequest
from providers.embeddings.usage_collector import EmbeddingCall
from telemetry.config import TelemetryConfig
from telemetry.types import Origin, Outcome, TurnRecord
from turns.budget.reservations import UsageGrant
from turns.preparation.options import TurnOptions
from turns.structured_output import reply_format

OnEnd = Callable[[Reply, Sequence[Call]], None]
OnInterruption = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a client asks, read and checked by the way in."""

    turn_id: TurnId
    agent: str
    user_id: UserId
    """Resolved by the entry point, which knows where a request names its user."""
    messages: Sequence[Message]
    """All the request's messages, the system's among them."""
    options: TurnOptions
    parameters: Mapping[str, Any]
    """Sampling and tool parameters the request sets, under OpenAI's names."""
    tools: Sequence[dict[str, Any]] = ()
    """The client's own tools; their calls go back to the client."""
    format: reply_format.ReplyFormat | None = None
    response_format: Mapping[str, Any] | None = None
    """The same as `format`, for providers that enforce it themselves."""
    stream: bool = False
    caller: Caller = ANONYMOUS
    """What a credential says of who asks."""
    request_id: str = ""
    """The client's name for the request, or ours."""
    origin: Origin = "chat"
    on_end: OnEnd | None = None
    """Writes more in the transaction that stores the turn, if it ended well. What it
    raises, the turn raises; with `TurnDiscarded` it is charged, and nothing is stored."""
    on_interruption: OnInterruption | None = None
    """The same for a turn that was cancelled or failed."""
    learns: bool = True
    """Whether what is said to the agent is learnt from as a user's own words."""
    generation: int = 0
    """How many turns, each asked for by the one before, led to it."""


@dataclass(frozen=True, slots=True)
class StartTime:
    """Now, on the calendar and on the clock that never jumps."""

    at: datetime = field(default_factory=trace.now)
    clock: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that is ready to run."""

    request: TurnRequest
    agent: AgentConfig
    user_id: UserId
    new: Sequence[Message]
    """The messages this turn adds to the transcript, before the reply."""
    prompt: Sequence[Message]
    memory: MemoryConfig
    extraction_request: ExtractionRequest | None
    """The wish to learn from this turn."""
    telemetry: TelemetryConfig
    started: StartTime
    config: Config
    """The file as it was when the turn began."""
    usage_grant: UsageGrant
    """What it may use, and where that is charged."""
    recalled_fact_ids: Sequence[uuid.UUID] = ()
    """The facts of the user that the prompt tells."""
    tools: Sequence[Tool] = ()
    """The agent's own, for this user."""
    tool_set: ToolSet | None = None
    """These and the client's, as models receive them; None if not decided yet."""
    experiment: str = ""
    """What the client named, where the agent is a variant of it."""
    record: list[Call] = field(default_factory=list)
    """What it has called until now."""
    embeddings: Sequence[EmbeddingCall] = ()
    """Its calls of embedding APIs so far."""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that is over, as hooks are handed it."""

    turn: Turn
    reply: Reply
    record: TurnRecord
    outcome: Outcome
