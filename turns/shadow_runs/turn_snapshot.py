"""What a trial needs to know of the turn it repeats, as a task's payload has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from core.ids import TurnId
from core.messages import Message
from memory.transcript import message_rows
from memory.transcript.message_rows import Entry
from tasks.queue.claimed_task import Work
from turns.preparation import prompt
from turns.preparation.options import Options
from turns.structured_output import reply_format
from turns.turn import Turn, TurnRequest

OPTIONS = ("thread", "language_instruction", "is_memory_off", "time_zone")
"""Of the request's; the rest is of no matter to who answers."""


@dataclass(frozen=True, slots=True)
class Trial:
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
            "messages": [_written(message) for message in self.messages],
            "options": dict(self.options),
            "parameters": dict(self.parameters),
            "tools": list(self.tools),
            "response_format": self.response_format,
            "generation": self.generation,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        messages = [message_rows.to_message(*message) for message in told["messages"]]
        return cls(**{**told, "messages": messages})

    def to_turn_request(self, task: Work, turn_id: TurnId) -> TurnRequest:
        """Return what the variant is asked."""
        return TurnRequest(
            turn_id=turn_id,
            agent=task.agent,
            user_id=task.user_id,
            messages=self.messages,
            options=Options(**self.options),
            parameters=self.parameters,
            tools=self.tools,
            format=reply_format.of(self.response_format),
            response_format=self.response_format,
            request_id=task.request_id,
            origin="shadow",
            learns=False,
            generation=self.generation,
        )


def size(told: Mapping[str, Any]) -> int:
    """Return about how many characters a payload has."""
    return sum(len(part) for message in told["messages"] for part in message)


def is_kept(told: Mapping[str, Any]) -> bool:
    """Return whether a payload still has what was asked."""
    return "messages" in told


def of(turn: Turn) -> Trial:
    """Return what another variant must know to answer what a turn answered."""
    request = turn.request
    own = prompt.system_messages(turn.agent.preamble, instructions(request), ())
    return Trial(
        experiment=turn.experiment,
        messages=turn.prompt[len(own) :],
        options={name: getattr(request.options, name) for name in OPTIONS},
        parameters=request.parameters,
        tools=request.tools,
        response_format=request.response_format,
        generation=request.generation,
    )


def instructions(request: TurnRequest) -> list[str]:
    """Return what an agent is told besides its preamble."""
    told = [request.options.language_instruction]
    return told if request.format is None else [*told, request.format.instruction]


def _written(message: Message) -> tuple[str, str, str]:
    entry = Entry(message, 0)
    return message.role, message_rows.text_of(message), message_rows.extra_of(entry)
