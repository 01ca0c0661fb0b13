"""What a trial needs to know of the turn it repeats, as a task's payload has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from core.ids import TurnId
from core.messages import Message
from memory.transcript import message_rows
from memory.transcript.message_rows import NewMessage
from tasks.queue.claimed_task import ClaimedTask
from turns.preparation import prompt
from turns.preparation.options import TurnOptions
from turns.structured_output import reply_format
from turns.turn import Turn, TurnRequest

COPIED_OPTIONS = ("thread", "language_instruction", "is_memory_off", "time_zone")
"""Of the request's; the rest is of no matter to who answers."""


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    """What was asked, without the preamble of who answered."""

    experiment: str
    messages: Sequence[Message]
    options: Mapping[str, Any]
    parameters: Mapping[str, Any]
    tools: Sequence[dict[str, Any]] = ()
    response_format: Mapping[str, Any] | None = None
    generation: int = field(default=0)

    def to_json(self) -> dict[str, Any]:
        """Return it as a task's payload has it."""
        return {
            "experiment": self.experiment,
            "messages": [_message_as_json(message) for message in self.messages],
            "options": dict(self.options),
            "parameters": dict(self.parameters),
            "tools": list(self.tools),
            "response_format": self.response_format,
            "generation": self.generation,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        messages = [
            message_rows.message_from_row(*message) for message in told["messages"]
        ]
        return cls(**{**told, "messages": messages})

    def to_turn_request(self, task: ClaimedTask, turn_id: TurnId) -> TurnRequest:
        """Return what the variant is asked."""
        return TurnRequest(
            turn_id=turn_id,
            agent=task.agent,
            user_id=task.user_id,
            messages=self.messages,
            options=TurnOptions(**self.options),
            parameters=self.parameters,
            tools=self.tools,
            format=reply_format.from_response_format(self.response_format),
            response_format=self.response_format,
            request_id=task.request_id,
            origin="shadow",
            learns=False,
            generation=self.generation,
        )


def payload_size(told: Mapping[str, Any]) -> int:
    """Return about how many characters a payload has."""
    return sum(len(part) for message in told["messages"] for part in message)


def has_messages(told: Mapping[str, Any]) -> bool:
    """Return whether a payload still has what was asked."""
    return "messages" in told


def take_snapshot(turn: Turn) -> TurnSnapshot:
    """Return what another variant must know to answer what a turn answered."""
    request = turn.request
    own = prompt.system_messages(turn.agent.preamble, instructions(request), ())
    return TurnSnapshot(
        experiment=turn.experiment,
        messages=turn.prompt[len(own) :],
        options={name: getattr(request.options, name) for name in COPIED_OPTIONS},
        parameters=request.parameters,
        tools=request.tools,
        response_format=request.response_format,
        generation=request.generation,
    )


def instructions(request: TurnRequest) -> list[str]:
    """Return what an agent is told besides its preamble."""
    told = [request.options.language_instruction]
    return told if request.format is None else [*told, request.format.instruction]


def _message_as_json(message: Message) -> tuple[str, str, str]:
    entry = NewMessage(message, 0)
    return (
        message.role,
        message_rows.stored_text(message),
        message_rows.extra_json(entry),
    )
