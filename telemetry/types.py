"""A turn as it is recorded and read back."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from core.events import Usage
from core.ids import TurnId, UserId
from core.trace import Call

Outcome = Literal["ok", "cancelled", "error"]
"""How a turn ended; `cancelled` is one whose client left."""

Origin = Literal["chat", "task", "smoke", "shadow"]
"""What began a turn: a client, a piece of background work, a synthetic user, or the
trial of another variant beside the one that answered."""


@dataclass(frozen=True, slots=True)
class TurnHeader:
    """What is known of a turn from its beginning."""

    turn_id: TurnId
    user_id: UserId
    thread: str
    """The user's thread; "" is their default one."""
    agent: str
    """Who answers: of an experiment, the variant."""
    experiment: str
    """The experiment that chose the agent; "" is none."""
    origin: Origin
    user_message: str
    """What the user said last."""
    is_streamed: bool
    started_at: datetime


@dataclass(frozen=True, slots=True)
class TurnSummary(TurnHeader):
    """A turn that ended, without what it called."""

    seconds: float
    outcome: Outcome
    finish_reason: str
    """As the client was told; "" where nobody was told any."""
    error: str | None
    request_id: str
    """The client's name for the request, or ours."""
    token_id: uuid.UUID | None
    """The API token it was asked with."""
    cost_micro_usd: int | None
    """What all of it cost; None where any of it is not known."""
    usage: Usage
    """Of all its model calls together."""


@dataclass(frozen=True, slots=True)
class TurnRecord(TurnSummary):
    """A whole turn."""

    recalled_fact_ids: Sequence[str]
    """The facts of the user that the prompt told, by what clients call them."""
    calls: Sequence[Call]
    """In order of beginning; what a tool called in its turn is within it."""


@dataclass(frozen=True, slots=True)
class TurnListItem(TurnSummary):
    """A turn as lists have it."""

    model_calls: int
    """How many, at every depth."""
    tool_calls: int
