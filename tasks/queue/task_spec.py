"""The values of a task that is about to be enqueued."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.ids import UserId


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task to enqueue."""

    kind: str
    user_id: UserId
    agent: str
    prompt: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    turn_id: uuid.UUID | None = None
    token_id: uuid.UUID | None = None
    key: str | None = None
    """Idempotency key: a task is not added if one has this key."""
    priority: int = 0
    max_failures: int = 1
    delay_seconds: float = 0.0
    """Delay before it may be claimed."""
    id: uuid.UUID = field(default_factory=uuid.uuid4)
