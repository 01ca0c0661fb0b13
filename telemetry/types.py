"""Types of recorded turns."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from core.events import Usage
from core.ids import TurnId, UserId
from core.trace import Call

Outcome = Literal["ok", "cancelled", "error"]
"""How a turn ended; `cancelled` means that the client disconnected."""

Origin = Literal["chat", "task", "smoke", "shadow", "voice"]
"""What started a turn: a client, a background task, a synthetic user, a shadow run, or
a conversation by voice, whose start and tool calls are turns."""


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
