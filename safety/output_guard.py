"""Checks a reply while it arrives, before its client receives it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from core import trace
from core.events import (
    Event,
    Heartbeat,
    LogProbs,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    TurnFinished,
)
from core.messages import Message
from core.reply import Reply
from safety import check_runner
from safety.text_window import TextWindow
from safety.turn_safety import Finding, TurnSafety


class OutputGuard:
    """The checks of one reply, beside and after it."""

    def __init__(
        self,
        safety: TurnSafety,
        prompt: Sequence[Message],
        *,
        earlier: int,
        stream: bool,
    ) -> None:
        self._safety = safety
        self._prompt = prompt
        self._earlier = earlier
        self._window = TextWindow(
            safety.checks_at("after", is_windowed=True),
            safety.settings.window_chars if stream else None,
        )
        self._kind: Callable[[str], Event] = TextDelta
        """The kind of the text that is held back."""
        self._stream = stream
        self._raw = Reply()
        """The reply as the model wrote it."""
        self._has_text = False
        """Whether the client has received text."""

    async def run(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """Yield the checked events of a reply, `TurnFinished` last.

        A check that ends the reply closes `events`, and so the model's call.
        """
        beside = asyncio.create_task(self._check_input())
        pending: list[Event] = []
        try:
            async with aclosing(events):
                async for event in events:
                    self._raw.add(event)
                    passed = self._filter(event)
                    if isinstance(event, TurnFinished):
                        await beside
                        await self._check_reply()
                    if self._safety.decision is not None:
                        break
                    pending += passed
                    if not (self._stream or isinstance(event, TurnFinished)):
                        continue  # The client has nothing yet, so all can be replaced.
                    for each in pending:
                        self._has_text = self._has_text or isinstance(each, TextDelta)
                        yield each
                    pending.clear()
        finally:
            beside.cancel()
        if self._safety.decision is not None:
            for each in ending(self._safety, has_text=self._has_text):
                yield each

    def _filter(self, event: Event) -> list[Event]:
        """Return the events that pass now."""
        match event:
            case TextDelta() | RefusalDelta() | ReasoningDelta():
                passed = [] if type(event) is self._kind else self._flush()
                self._kind = type(event)
                text = self._window.add(event.text)
                self._note()
                return [*passed, self._kind(text)] if text else passed
            case LogProbs():
                return []  # They would show tokens before the text has passed.
            case Heartbeat():
                return [event]
            case TurnFinished():
                exchange = tuple(map(self._mask_message, event.exchange))
                return [*self._flush(), replace(event, exchange=exchange)]
            case _:
                return [*self._flush(), event]

    def _flush(self) -> list[Event]:
        text = self._window.flush()
        self._note()
        return [self._kind(text)] if text else []

    def _note(self) -> None:
        for found in self._window.take_found():
            self._safety.add(Finding(*found))

    def _mask_message(self, message: Message) -> Message:
        """Return a message of the exchange as its client received it."""
        if message.role != "assistant" or not isinstance(message.content, str):
            return message
        window = TextWindow(self._safety.checks_at("after", is_windowed=True), None)
        return replace(message, content=window.add(message.content) + window.flush())

    async def _check_input(self) -> None:
        checks = [check for check in self._safety.checks if check.when == "beside"]
        await check_runner.run_checks(
            self._safety, checks, self._prompt, earlier=self._earlier
        )

    async def _check_reply(self) -> None:
        checks = self._safety.checks_at("after", is_windowed=False)
        text = self._raw.text or self._raw.refusal
        messages = [*self._prompt, Message("assistant", text)]
        await check_runner.run_checks(
            self._safety, checks, messages, earlier=len(self._prompt)
        )


def ending(safety: TurnSafety, *, has_text: bool = False) -> list[Event]:
    """Return the events of the text that is sent in place of a reply."""
    decision = safety.decision
    if decision is None:
        return []
    action = decision.action
    usage = trace.total_usage(safety.record)
    if action.replace is not None:
        text = f"\n\n{action.replace}" if has_text else action.replace
        return [TextDelta(text), TurnFinished("stop", usage)]
    return [
        RefusalDelta(action.refuse or ""),
        TurnFinished("content_filter", usage),
    ]
