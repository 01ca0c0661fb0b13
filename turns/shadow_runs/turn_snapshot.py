"""The data of a turn that its shadow runs need, stored as the task's payload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from core.ids import TurnId
from core.messages import Message
from memory.transcript import message_rows
from tasks.queue.claimed_task import ClaimedTask
from turns.preparation import options, prompt
from turns.preparation.options import TurnOptions
from turns.turn import Turn, TurnRequest

COPIED_OPTIONS = ("thread", "language_instruction", "is_memory_off", "time_zone")
"""Copied from the request; its other options do not affect the reply."""


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    """The messages and options of a turn, without the preamble of its agent."""

    experiment: str
    messages: Sequence[Message]
    options: Mapping[str, Any]
    parameters: Mapping[str, Any]
    tools: Sequence[dict[str, Any]] = ()
    response_format: Mapping[str, Any] | None = None
    generation: int = 0
    is_thread_known: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the task payload."""
        return {
            "experiment": self.experiment,
            "messages": list(map(message_rows.to_columns, self.messages)),
            "options": dict(self.options),
            "parameters": dict(self.parameters),
            "tools": list(self.tools),
            "response_format": self.response_format,
            "generation": self.generation,
            "is_thread_known": self.is_thread_known,
        }

    @classmethod
    def from_json(cls, payload: Mapping[str, Any]) -> Self:
        messages = [
            message_rows.message_from_row(*message) for message in payload["messages"]
        ]
        return cls(**{**payload, "messages": messages})

    def to_turn_request(self, task: ClaimedTask, turn_id: TurnId) -> TurnRequest:
        """Return the turn request for the variant."""
        return TurnRequest(
            turn_id=turn_id,
            agent=task.agent,
            user_id=task.user_id,
            messages=self.messages,
            options=TurnOptions(**self.options),
            parameters=self.parameters,
            tools=self.tools,
            response_format=self.response_format,
            request_id=task.request_id,
            origin="shadow",
            learns=False,
            generation=self.generation,
        )


def payload_size(payload: Mapping[str, Any]) -> int:
    """Return the approximate number of characters of a payload."""
    return sum(len(part) for message in payload["messages"] for part in message)


def has_messages(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload still contains the messages."""
    return "messages" in payload


def take_snapshot(turn: Turn) -> TurnSnapshot:
    """Return the data that another variant needs to answer the same messages."""
    request = turn.request
    system = prompt.system_messages(turn.agent.preamble, request.instructions, ())
    return TurnSnapshot(
        experiment=turn.experiment,
        messages=turn.prompt[len(system) :],
        options={name: getattr(request.options, name) for name in COPIED_OPTIONS},
        parameters=request.parameters,
        tools=request.tools,
        response_format=request.response_format,
        generation=request.generation,
        is_thread_known=options.is_thread_known(request.options, turn.history_mode),
    )
