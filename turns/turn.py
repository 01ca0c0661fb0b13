"""A turn: what a client asks, and what is known once it is ready to run."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from access.users.caller import OPEN, Caller
from agents.config import AgentConfig
from agents.loop import Offer
from config.sections import Config
from core import trace
from core.ids import TurnId, UserId
from core.messages import Message
from core.reply import Reply
from core.tools import Tool
from core.trace import Call
from memory.config import MemoryConfig
from memory.extraction.job_queue import Study
from providers.embeddings.usage_collector import EmbeddingCall
from telemetry.config import TelemetryConfig
from telemetry.types import Origin, Outcome, Record
from turns.budget.reservations import Allowance
from turns.preparation.options import Options
from turns.structured_output import reply_format

OnEnd = Callable[[Reply, Sequence[Call]], None]
OnBreak = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a client asks, read and checked by the way in."""

    turn_id: TurnId
    agent: str
    user_id: UserId
    """Resolved by the entry point, which knows where a request names its user."""
    messages: Sequence[Message]
    """All the request's messages, the system's among them."""
    options: Options
    parameters: Mapping[str, Any]
    """Sampling and tool parameters the request sets, under OpenAI's names."""
    tools: Sequence[dict[str, Any]] = ()
    """The client's own tools; their calls go back to the client."""
    format: reply_format.Format | None = None
    response_format: Mapping[str, Any] | None = None
    """The same as `format`, for providers that enforce it themselves."""
    stream: bool = False
    caller: Caller = OPEN
    """What a credential says of who asks."""
    request_id: str = ""
    """The client's name for the request, or ours."""
    origin: Origin = "chat"
    on_end: OnEnd | None = None
    """Writes more in the transaction that stores the turn, if it ended well. What it
    raises, the turn raises; with `Unwanted` it is charged, and nothing is stored."""
    on_interruption: OnBreak | None = None
    """The same for a turn that was cancelled or failed."""
    learns: bool = True
    """Whether what is said to the agent is learnt from as a user's own words."""
    generation: int = 0
    """How many turns, each asked for by the one before, led to it."""


@dataclass(frozen=True, slots=True)
class Moment:
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
    extraction_request: Study | None
    """The wish to learn from this turn."""
    telemetry: TelemetryConfig
    started: Moment
    config: Config
    """The file as it was when the turn began."""
    usage_grant: Allowance
    """What it may use, and where that is charged."""
    recalled_fact_ids: Sequence[uuid.UUID] = ()
    """The facts of the user that the prompt tells."""
    tools: Sequence[Tool] = ()
    """The agent's own, for this user."""
    tool_set: Offer | None = None
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
    record: Record
    outcome: Outcome
