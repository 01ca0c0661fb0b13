"""Types of recorded turns."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from core.events import Usage
from core.ids import TurnId, UserId
from core.trace import Call

Outcome = Literal["ok", "cancelled", "error"]
"""How a turn ended; `cancelled` means that the client disconnected."""

Origin = Literal["chat", "task", "smoke", "shadow", "voice"]
"""What started a turn: a client, a background task, a synthetic user, a shadow run, or
a conversation by voice, whose start and tool calls are turns."""


RecallPath = Literal["none", "words", "vectors", "both"]
"""How memories were searched for a turn."""
CorpusSize = Literal["", "small", "large", "database"]
"""Where they were searched: in memory, compared one by one or by an index, or in the
database; "" if they were not."""


@dataclass(init=False)
class Diagnostics:
    """The contents of a turn's prompt, and the durations of its parts.

    Filled while the turn runs. None: it did not get that far. An instance contains only
    what was set: to set each default would take longer than all the rest.
    """

    recall: RecallPath = "none"
    corpus: CorpusSize = ""
    embedder: str = ""
    """The embedder of the vectors; "" without vectors."""
    history: int = 0
    """Stored messages in the prompt, in their order."""
    facts: int = 0
    rules: int = 0
    quotes: int = 0
    """Older messages that the prompt quotes."""
    summaries: int = 0
    episodes: int = 0
    """Earlier sessions of which the prompt tells, as the first one of a session."""
    embedding_seconds: float | None = None
    """Until the question has a vector."""
    database_seconds: float | None = None
    """The first use of the database, with the wait for it."""
    read_seconds: float | None = None
    """The part of it that reads the context."""
    limits_seconds: float | None = None
    """The part of it that checks limits and reserves usage; None without limits."""
    prepare_seconds: float | None = None
    """Until the model is called, all of the above included."""
    first_event_seconds: float | None = None
    """Until the first part of the reply, since the turn began."""
    save_seconds: float | None = None
    """From the end of the reply until the record is written."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@dataclass(frozen=True, slots=True)
class TurnHeader:
    """The fields that are known when a turn begins."""

    turn_id: TurnId
    user_id: UserId
    thread: str
    """The user's thread; "" is the default thread."""
    agent: str
    """The agent that answers; for an experiment, the variant."""
    experiment: str
    """The experiment that selected the agent; "" if none."""
    origin: Origin
    user_message: str
    """The user's last message."""
    is_streamed: bool
    started_at: datetime

    @property
    def variant(self) -> str | None:
        """The agent, if an experiment chose it."""
        return self.agent if self.experiment else None


@dataclass(frozen=True, slots=True)
class TurnRecord(TurnHeader):
    """A turn that ended, with all its calls."""

    seconds: float
    outcome: Outcome
    finish_reason: str
    """As in the response; "" if the client received none."""
    error: str | None
    request_id: str
    """The client's id for the request, or a generated one."""
    token_id: uuid.UUID | None
    """The API token of the request."""
    cost_micro_usd: int | None
    """The whole cost; None if any part is unknown."""
    usage: Usage
    """Sum of all its model calls."""
    recalled_fact_ids: Sequence[str]
    """Public ids of the user's facts in the prompt."""
    calls: Sequence[Call]
    """Ordered by start; a tool call contains the calls made within it."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Like the calls, it is filled as the turn runs."""
