"""A conversation between a persona and an agent, as far as it has come."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.ids import UserId
from core.messages import Message
from smoke.config import SmokeTestConfig

Speaker = Literal["persona", "assistant"]
Stop = Literal[
    "persona_marker",
    "assistant_marker",
    "max_turns",
    "silence",
    "timeout",
    "error",
]
"""Why a conversation ended."""

OPENING_PROMPT = "(The conversation begins here. Say the first thing you have to say.)"
"""What a persona is told before its first message: models answer, they do not begin."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one side said."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation, and the attempt of a worker at it."""

    run_id: uuid.UUID
    attempt: int
    user_id: UserId
    test: SmokeTestConfig
    target: str
    utterances: list[Utterance]

    @property
    def next_speaker(self) -> Speaker:
        """Whose turn it is."""
        is_first = not self.utterances or self.utterances[-1].speaker == "assistant"
        return "persona" if is_first else "assistant"

    @property
    def turns(self) -> int:
        """How often the agent has replied."""
        return sum(line.speaker == "assistant" for line in self.utterances)

    @property
    def stopped_because(self) -> Stop | None:
        """Why it is over; None while it is not."""
        if not self.utterances:
            return None
        last, marker = self.utterances[-1], self.test.stop_marker
        if not last.text.strip():
            return "silence"
        if marker is not None and marker in last.text:
            return "persona_marker" if last.speaker == "persona" else "assistant_marker"
        if last.speaker == "assistant" and self.turns >= self.test.max_turns:
            return "max_turns"
        return None


def agent_messages(said: Sequence[Utterance]) -> list[Message]:
    """Return a conversation as the agent knows it: the persona is its user."""
    return [
        Message("user" if line.speaker == "persona" else "assistant", line.text)
        for line in said
    ]


def persona_messages(preamble: str, said: Sequence[Utterance]) -> list[Message]:
    """Return a conversation as the persona knows it: with the roles flipped."""
    flipped = (
        Message("assistant" if line.speaker == "persona" else "user", line.text)
        for line in said
    )
    return [Message("system", preamble), Message("user", OPENING_PROMPT), *flipped]
