"""The prompt of a turn, before its context is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from agents import message_filters
from agents.config import AgentConfig
from core.history import HistoryMode
from core.messages import Message
from memory.recall.context.turn_context import Context
from memory.transcript import digests
from turns.errors import ContextTooLong
from turns.preparation import prompt
from turns.turn import TurnRequest

TRIMMED_HEADER = "X-Coulisse-Trimmed-Messages"


@dataclass(frozen=True, slots=True)
class ComposedPrompt:
    """The messages that the model receives."""

    messages: Sequence[Message]
    new: Sequence[Message]
    """Those that the turn adds to the transcript."""
    headers: Mapping[str, str]
    """What the response says of them."""


@dataclass(frozen=True, slots=True)
class PromptDraft:
    """The parts of a prompt that do not come from the database."""

    request: TurnRequest
    agent: AgentConfig
    history_mode: HistoryMode
    system: Sequence[Message]
    """The system messages that come first."""
    sent: Sequence[Message]
    """The messages of the request that follow."""
    new: Sequence[Message]
    """The messages after the last reply in the request."""
    count_tokens: Callable[[Sequence[Message]], int]
    context_tokens: int
    """The maximum length of the prompt."""

    @classmethod
    def of(
        cls,
        request: TurnRequest,
        agent: AgentConfig,
        history_mode: HistoryMode,
        count_tokens: Callable[[Sequence[Message]], int],
        context_tokens: int,
    ) -> Self:
        """Return the draft of a request; raises `MessagesInvalid`.

        A client that sends the conversation also says where in it its own instructions
        are. Else they come first: the history follows them.
        """
        messages = request.messages
        new = prompt.new_messages(messages)
        sent: Sequence[Message] = new
        if history_mode == "server":
            prompt.check_new(new, messages)
            first = messages
        else:
            first = prompt.leading_system(messages)
            sent = messages[len(first) :]
        system = prompt.system_messages(agent.preamble, request.instructions, first)
        return cls(
            request,
            agent,
            history_mode,
            system,
            sent,
            new,
            count_tokens,
            context_tokens,
        )

    @property
    def is_mid_exchange(self) -> bool:
        """Whether the new messages answer tool calls that only the history contains."""
        return bool(self.new) and self.new[0].role == "tool"

    @property
    def has_reply(self) -> bool:
        """Whether the request contains an earlier reply."""
        return prompt.has_reply(self.request.messages)

    @property
    def remaining_tokens(self) -> int:
        """The tokens that stored messages and memories may have."""
        if self.history_mode != "server":
            return self.context_tokens
        sent = [*self.system, *self.sent]
        return self.context_tokens - self.count_tokens(sent)

    def open_exchange(self) -> Sequence[bytes]:
        """Return the digests of the replies whose tool calls the request answers.

        What was stored of them is sent to the model, because clients do not have all of
        it: the calls of the agent's own tools, and signed reasoning.
        """
        if self.history_mode != "client" or not self.is_mid_exchange:
            return ()
        messages = prompt.conversation(self.sent)
        chain = list(digests.iterate_digests(self.request.user_id, messages))
        last = max((n for n, m in enumerate(messages) if m.role == "user"), default=0)
        return [
            chain[n]
            for n in range(last, len(messages))
            if messages[n].role == "assistant"
        ]

    def count(self, context: Context) -> int:
        """Return the estimated tokens of the prompt with this context."""
        return self.count_tokens(self.compose(context).messages)

    def compose(self, context: Context) -> ComposedPrompt:
        """Return the prompt; raises `MessagesInvalid` and `ContextTooLong`."""
        parts = (
            context.rules,
            context.memory_prompt,
            context.state_prompt,
            context.catch_up,
        )
        memory = [Message("system", part) for part in parts if part]
        if self.history_mode == "server":
            stored = prompt.without_audio(context.messages)
            new = prompt.with_answered_calls(stored, self.new, self.request.messages)
            messages = prompt.join(stored, new)
            return ComposedPrompt([*self.system, *memory, *messages], new, {})
        sent = prompt.as_sent(self._with_stored_replies(context))
        start = [*self.system, *memory]
        fitting = self._fit(start, sent)
        trimmed = len(sent) - len(fitting)
        headers = {TRIMMED_HEADER: str(trimmed)} if trimmed else {}
        return ComposedPrompt([*start, *fitting], self.new, headers)

    def _with_stored_replies(self, context: Context) -> list[Message]:
        if not context.replies:
            return list(self.sent)
        digest = self.request.user_id.bytes
        messages: list[Message] = []
        for message in self.sent:
            if message.role == "system":
                messages.append(message)
                continue
            digest = digests.extend_digest(digest, message)
            messages += context.replies.get(digest, (message,))
        return messages

    def _fit(
        self, start: Sequence[Message], sent: Sequence[Message]
    ) -> Sequence[Message]:
        """Return what is sent of a client's conversation: all of it, if it fits.

        The limit applies if the agent sets one: its default is for stored messages.
        """
        limit = self.agent.context_tokens
        if limit is None:
            return sent

        def fits(messages: Sequence[Message]) -> bool:
            return self.count_tokens([*start, *messages]) <= limit

        if fits(sent):
            return sent
        if self.agent.context_overflow == "trim":
            first = message_filters.first_fitting(sent, fits)
            return message_filters.since(sent, first)
        raise ContextTooLong(self.count_tokens([*start, *sent]), self.agent.name, limit)
