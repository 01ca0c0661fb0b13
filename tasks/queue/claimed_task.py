"""A task as its handler receives it."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.ids import UserId


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A claimed task: one attempt of it."""

    id: uuid.UUID
    kind: str
    user_id: UserId
    agent: str
    prompt: str
    payload: Mapping[str, Any] = field(hash=False)
    origin: str
    turn_id: uuid.UUID | None
    token_id: uuid.UUID | None
    request_id: str
    attempts: int
    """The number of this attempt, from 1; it identifies the lease."""
    failures: int
    """Earlier attempts that ended with an error."""
    max_failures: int
    priority: int = 0
