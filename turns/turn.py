"""A turn: the client's request, and its state once it is ready to run."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from access.limits.usage_counters import Charge
from access.users.caller import ANONYMOUS, Caller
from agents.config import AgentConfig
from agents.tool_set import ToolSet
from config.sections import Config
from core.history import HistoryMode
from core.ids import TurnId, UserId, new_turn_id
from core.messages import Message
from core.reply import Reply
from core.runtime import request_ids, shared_clock
from core.runtime.trace_context import TraceContext
from core.tools import Tool
from core.trace import Call
from memory.config import MemoryConfig
from memory.extraction.extraction_tasks import ExtractionRequest
from providers.embeddings.usage_collector import EmbeddingCall
from safety.turn_safety import TurnSafety
from telemetry.config import TelemetryConfig
from telemetry.types import Diagnostics, Origin, Outcome, TurnRecord
from turns.budget.usage_grant import UsageGrant
from turns.preparation.options import TurnOptions
from turns.structured_output import reply_format
from turns.tools.state_tool import TurnState

OnEnd = Callable[[Reply, Sequence[Call]], None]
OnInterruption = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A client's request, read and checked by the entry point.

    Raises `SchemaInvalid` for a schema of `response_format` beyond the limits.
    """

    turn_id: TurnId = field(default_factory=new_turn_id)
    agent: str
    user_id: UserId
    """Resolved by the entry point, which knows where a request names its user."""
    messages: Sequence[Message]
    """All the request's messages, system messages included."""
    options: TurnOptions
    parameters: Mapping[str, Any]
    """Sampling and tool parameters the request sets, under OpenAI's names."""
    extra_parameters: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the request that OpenAI does not have."""
    tools: Sequence[dict[str, Any]] = ()
    """The client's own tools; their calls go back to the client."""
    response_format: Mapping[str, Any] | None = None
    """OpenAI's object, for providers that enforce it themselves; None for free text."""
    format: reply_format.ReplyFormat | None = field(init=False)
    """The same, for the check of the reply."""
    stored_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request that are stored with the reply, for its client."""
    stream: bool = False
    caller: Caller = ANONYMOUS
    """The authenticated caller."""
    request_id: str = field(default_factory=request_ids.current.get)
    """The client's id for the request, or a generated one."""
    origin: Origin = "chat"
    on_end: OnEnd | None = None
    """Writes further rows in the transaction that stores the turn, if it ended well.
    The turn raises its errors; with `TurnDiscarded` it is charged, and nothing is
    stored.
    """
    on_interruption: OnInterruption | None = None
    """The same for a turn that was cancelled or failed."""
    spoken_turn: TurnId | None = None
    """The turn of a conversation by voice that a tool call belongs to, as it will be
    stored; it begins with what the user says."""
    learns: bool = True
    """Whether facts are extracted from the prompt as from a user's own words."""
    generation: int = 0
    """Length of the chain of turns in which each one requested the next."""

    def __post_init__(self) -> None:
        parsed = reply_format.from_response_format(self.response_format)
        object.__setattr__(self, "format", parsed)

    @property
    def instructions(self) -> list[str]:
        """The instructions for its agent besides the preamble."""
        texts = [self.options.language_instruction]
        if self.format is not None:
            texts.append(self.format.instruction)
        return texts


@dataclass(frozen=True, slots=True)
class StartTime:
    """The current time, as wall-clock and as monotonic time."""

    at: datetime = field(default_factory=shared_clock.now)
    clock: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that is ready to run."""

    request: TurnRequest
    agent: AgentConfig
    user_id: UserId
    new: Sequence[Message]
    """The messages after the last reply in the request, which the turn answers."""
    prompt: Sequence[Message]
    memory: MemoryConfig
    extraction_request: ExtractionRequest | None
    """The request to extract facts from this turn."""
    telemetry: TelemetryConfig
    started: StartTime
    config: Config
    """The configuration when the turn began."""
    usage_grant: UsageGrant
    """The reserved usage, and the counters that the turn is charged to."""
    history_mode: HistoryMode = "server"
    """Who keeps the conversation."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of the response."""
    recalled_fact_ids: Sequence[uuid.UUID] = ()
    """The user's facts in the prompt."""
    extra_parameters: Mapping[str, Any] = field(default_factory=dict)
    """Those of the request that its models may receive."""
    tools: Sequence[Tool] = ()
    """The agent's own tools."""
    tool_set: ToolSet | None = None
    """The tools of the agent and the client, as models receive them."""
    state: TurnState | None = None
    """The state of its agent, if that declares one."""
    model_messages: Sequence[Message] = ()
    """The prompt with the contents of its files, as the models receive it."""
    experiment: str = ""
    """The experiment that the client named, if the agent is a variant of it."""
    record: list[Call] = field(default_factory=list)
    """Its calls so far."""
    embeddings: list[EmbeddingCall] = field(default_factory=list)
    """Its calls of embedding APIs so far."""
    safety: TurnSafety | None = None
    """Its safety checks; None if its agent has none."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """The contents of its prompt, and the durations of its parts so far."""
    span: TraceContext | None = None
    """Its span; None without traces."""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that is over, as it is stored and passed to hooks."""

    turn: Turn
    reply: Reply
    record: TurnRecord
    outcome: Outcome
    charge: Charge

    @property
    def is_incognito(self) -> bool:
        return self.turn.request.options.is_incognito

    @property
    def is_void(self) -> bool:
        """Whether it adds no messages: its history is `none`, it failed without a
        reply, or its task may be retried."""
        return self.turn.history_mode == "none" or (
            self.outcome == "error"
            and (self.turn.request.origin == "task" or not self.reply.has_output)
        )

    @property
    def extraction_request(self) -> ExtractionRequest | None:
        return None if self.is_void else self.turn.extraction_request

    def settle(self) -> None:
        """Charge the turn and release its reservation, on a database thread."""
        self.turn.usage_grant.settle(self.charge)
