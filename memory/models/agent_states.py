"""The model of what agents keep of conversations between turns."""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson
from django.db import models

from memory.models.threads import Thread

Values = dict[str, Any]


class AgentStateQuerySet(models.QuerySet["AgentState"]):
    def of_thread(
        self, user_id: uuid.UUID, thread: str, agent: str
    ) -> "AgentState | None":
        """Return the state of an agent in a thread, or None."""
        return self.filter(
            thread__user_id=user_id, thread__name=thread, agent=agent
        ).first()

    def change(
        self,
        thread_id: int,
        agent: str,
        reduce: Callable[[Mapping[str, Any]], Values],
        now: datetime,
    ) -> "AgentState":
        """Store what `reduce` makes of the stored values; return the row.

        The caller has locked the thread, so that no change is lost.
        """
        row = self.filter(thread_id=thread_id, agent=agent).first()
        if row is None:
            row = AgentState(thread_id=thread_id, agent=agent)
        row.replace(reduce(row.values), now)
        return row


class AgentState(models.Model):
    """The values that an agent has of the fields of its state, in one thread."""

    # Its index is that of the constraint.
    thread = models.ForeignKey(Thread, db_index=False, on_delete=models.CASCADE)
    agent = models.CharField(max_length=255)
    data = models.TextField(default="{}")
    """JSON; as a text, which keeps the order of keys and may contain NUL."""
    updated_at = models.DateTimeField()

    objects = AgentStateQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "agent"], name="memory_agent_state_agent"
            )
        ]

    def __str__(self) -> str:
        return f"state of {self.agent} in thread {self.thread_id}"

    @property
    def values(self) -> Values:
        values: Values = orjson.loads(self.data)
        return values

    def replace(self, values: Values, now: datetime) -> None:
        """Store other values. The caller has locked the thread."""
        self.data, self.updated_at = orjson.dumps(values).decode(), now
        self.save()
