"""The current state of a conversation between a persona and an agent."""

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

OPENING_PROMPT = "(The conversation begins here. Write your first message.)"
"""The first message to a persona: models answer, they do not begin."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message of the conversation."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation, and the attempt of a worker to run it."""

    run_id: uuid.UUID
    attempt: int
    user_id: UserId
    test: SmokeTestConfig
    target: str
    utterances: list[Utterance]

    @property
    def next_speaker(self) -> Speaker:
        is_first = not self.utterances or self.utterances[-1].speaker == "assistant"
        return "persona" if is_first else "assistant"

    @property
    def turns(self) -> int:
        """Number of the agent's replies."""
        return sum(each.speaker == "assistant" for each in self.utterances)

    @property
    def stopped_because(self) -> Stop | None:
        """Why it ended; None while it is open."""
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


def agent_messages(utterances: Sequence[Utterance]) -> list[Message]:
    """Return the agent's view: the persona is its user."""
    return [
        Message("user" if each.speaker == "persona" else "assistant", each.text)
        for each in utterances
    ]


def persona_messages(preamble: str, utterances: Sequence[Utterance]) -> list[Message]:
    """Return the persona's view: with the roles flipped."""
    flipped = (
        Message("assistant" if each.speaker == "persona" else "user", each.text)
        for each in utterances
    )
    return [Message("system", preamble), Message("user", OPENING_PROMPT), *flipped]
