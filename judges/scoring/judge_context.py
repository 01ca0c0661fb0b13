"""The context of a judge: a reply, and the messages that it answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from core.messages import Message
from core.text.sanitization import shorten_middle
from telemetry.storage.stored_text import make_storable

MAX_EARLIER_MESSAGES = 12
"""Newest messages from before the turn."""
MAX_TURN_MESSAGES = 50
"""Newest messages of the turn before its reply: tools can return many."""
MAX_EARLIER_CHARS = 1_500
MAX_CHARS = 12_000
"""Maximum characters of a message; longer messages are cut in the middle."""
MAX_REPLY_CHARS = 24_000


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message as the judge receives it."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """A reply to judge."""

    earlier: Sequence[ContextMessage]
    """Messages from before the turn, oldest first."""
    turn: Sequence[ContextMessage]
    """The user's message and tool results of the turn."""
    reply: str

    def to_json(self) -> dict[str, Any]:
        """Return the task payload."""
        return {
            "earlier": [[each.role, each.text] for each in self.earlier],
            "turn": [[each.role, each.text] for each in self.turn],
            "reply": self.reply,
        }

    @classmethod
    def from_json(cls, payload: Mapping[str, Any]) -> Self:
        return cls(
            [ContextMessage(*each) for each in payload["earlier"]],
            [ContextMessage(*each) for each in payload["turn"]],
            payload["reply"],
        )


def build_context(
    earlier: Iterable[Message], turn: Iterable[Message], reply: str
) -> JudgeContext:
    """Return the context of a conversation, each message shortened.

    System messages are left out: they belong to the agent, and may be secret.
    """
    return JudgeContext(
        _context_messages(earlier, MAX_EARLIER_CHARS)[-MAX_EARLIER_MESSAGES:],
        _context_messages(turn, MAX_CHARS)[-MAX_TURN_MESSAGES:],
        shorten_middle(make_storable(reply), MAX_REPLY_CHARS),
    )


def _context_messages(
    messages: Iterable[Message], max_chars: int
) -> list[ContextMessage]:
    shortened = (
        ContextMessage(
            message.role,
            shorten_middle(make_storable(_message_text(message)), max_chars),
        )
        for message in messages
        if message.role != "system"
    )
    return [message for message in shortened if message.text.strip()]


def _message_text(message: Message) -> str:
    """Return a message's text; other content appears in brackets."""
    content = message.content
    others = [] if content is None or isinstance(content, str) else list(content)
    lines = [message.text]
    lines += [f"[{part.get('type')}]" for part in others if part.get("type") != "text"]
    lines += [f"[calls {call.name}({call.arguments})]" for call in message.tool_calls]
    return "\n".join(filter(None, lines))
