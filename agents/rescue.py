"""Continuation of a reply that broke off.

The client has received a part of it and must receive the rest, once. The model is asked
to continue that part, in one of three forms: as an answer that it has begun (a prefill,
which some providers take), as a part that is quoted, or from its beginning. A
repetition of the part is left out.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from agents.config import RescueMode
from core import token_estimates
from core.events import (
    Event,
    LogProbs,
    ReasoningBlock,
    ReasoningDelta,
    TextDelta,
)
from core.messages import Message
from core.reply import Reply
from providers.errors import ProviderFailed

Form = Literal["prefill", "quote", "restart"]

INSTRUCTION = """\
Your reply broke off. The user has received exactly what you see above. Continue it \
from its last character, in the same language and format. Repeat nothing of it, do not \
mention the interruption, and write nothing else before the continuation."""
MAX_FORMS = 3
MIN_REPEATED_CHARS = 10
"""A shorter repetition may be chance: `ban` goes on with `ana`."""


class Diverged(ProviderFailed):
    """A reply that was restarted does not begin like the one that broke off."""

    code = "reply_diverged"


def forms(mode: RescueMode, *, takes_prefill: bool) -> Sequence[Form]:
    """Return how a model is asked to continue; each next form if it refuses one."""
    if mode == "restart":
        return ("restart",)
    return ("prefill", "quote", "restart") if takes_prefill else ("quote", "restart")


def messages_to_continue(
    messages: Sequence[Message], said: str, form: Form
) -> Sequence[Message]:
    """Return the prompt for the rest of a reply."""
    if form == "restart" or not said.strip():
        return messages
    # Anthropic refuses a prefill that ends with white space.
    text = said.rstrip() if form == "prefill" else said
    begun = [*messages, Message("assistant", text)]
    return begun if form == "prefill" else [*begun, Message("user", INSTRUCTION)]


def limits_to_continue(
    parameters: dict[str, Any], said: str, form: Form
) -> dict[str, Any]:
    """Return the parameters for the rest of a reply, which may be that much shorter."""
    if form == "restart":
        return parameters
    tokens = token_estimates.estimate_text(said)
    limits = {
        name: max(1, parameters[name] - tokens)
        for name in ("max_tokens", "max_completion_tokens")
        if parameters.get(name)
    }
    return {**parameters, **limits}


async def rest_of(
    events: AsyncGenerator[Event], reply: Reply, said: str, form: Form
) -> AsyncGenerator[Event]:
    """Yield the events of a reply that follow `said`; add all to `reply`.

    Reasoning is not shown again, nor are log probabilities, whose text may be left out.
    """
    repetition = RepetitionFilter(said, is_restart=form == "restart")
    async with aclosing(events):
        async for event in events:
            reply.add(event)
            match event:
                case TextDelta():
                    if text := repetition.add(event.text):
                        yield TextDelta(text)
                case ReasoningDelta() | LogProbs():
                    continue
                case ReasoningBlock():
                    yield event
                case _:
                    if text := repetition.flush():
                        yield TextDelta(text)
                    yield event


class RepetitionFilter:
    """Leaves out what the rest of a reply repeats of the part before it.

    It holds back as much as may still be a repetition, never more than that part.
    """

    def __init__(self, said: str, *, is_restart: bool) -> None:
        self._said = said
        self._is_restart = is_restart
        self._held = ""
        self._starts: list[int] | None = [0] if is_restart else None
        """Where in the part the repetition may begin; None before the first piece."""
        self._is_done = not said

    def add(self, text: str) -> str:
        """Return what passes now; raises `Diverged` for a reply that was restarted."""
        if self._is_done or not text:
            return text
        known = len(self._held)
        self._held += text
        starts = range(len(self._said)) if self._starts is None else self._starts
        self._starts = [start for start in starts if self._fits(start + known, text)]
        for start in self._starts:
            if start + len(self._held) < len(self._said):
                return ""  # A longer repetition is possible.
            if self._is_repetition(start):
                return self._pass(self._held[len(self._said) - start :])
        if self._is_restart:
            raise Diverged
        return self._pass(self._held)

    def flush(self) -> str:
        """Return what was held back, at the end of the reply."""
        if self._is_restart and not self._is_done:
            raise Diverged
        return "" if self._is_done else self._pass(self._held)

    def _fits(self, position: int, text: str) -> bool:
        return text.startswith(self._said[position : position + len(text)])

    def _is_repetition(self, start: int) -> bool:
        repeated = self._said[start:]
        is_long = not start or len(repeated) >= MIN_REPEATED_CHARS
        return is_long or repeated.isspace()

    def _pass(self, text: str) -> str:
        self._is_done = True
        self._held = ""
        return text
