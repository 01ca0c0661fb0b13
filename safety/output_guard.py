"""Checks a reply while it arrives, before its client receives it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from core import trace
from core.events import (
    HEARTBEAT_SECONDS,
    Event,
    Heartbeat,
    LogProbs,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
)
from core.messages import Message
from core.reply import Reply
from safety import check_runner
from safety.config import SafetyCheck
from safety.input_messages import CheckedMessages
from safety.text_window import TextWindow
from safety.turn_safety import TurnSafety


class OutputGuard:
    """The checks of one reply, beside and after it."""

    def __init__(
        self,
        safety: TurnSafety,
        messages: CheckedMessages,
        *,
        stream: bool,
    ) -> None:
        self._safety = safety
        self._messages = messages
        self._stream = stream
        self._beside = safety.checks_beside
        self._windowed = safety.checks_at("after", is_windowed=True)
        self._whole = safety.checks_at("after", is_windowed=False)
        self._window = TextWindow(
            self._windowed, safety.settings.window_chars if stream else None
        )
        self._holds_text = bool(self._windowed) or (stream and _can_end(self._whole))
        self._holds_calls = stream and _can_end(
            [*self._beside, *self._windowed, *self._whole]
        )
        self._calls: list[Event] = []
        """The calls of the client's tools that are held back."""
        self._kind: Callable[[str], Event] = TextDelta
        """The kind of the text that is held back."""
        self._raw = Reply()
        """The reply as the model wrote it."""
        self._length = 0
        self._has_text = False
        """Whether the client has received text."""
        self._tasks: list[asyncio.Task[None]] = []
        self._is_reply_checked = False

    async def run(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """Yield the checked events of a reply, `TurnFinished` last.

        A check that ends the reply closes `events`, and so the model's call.
        """
        self._start(self._beside, self._messages)
        pending: list[Event] = []
        async with aclosing(events):
            async for event in events:
                self._raw.add(event)
                pending += await self._filter(event)
                self._note()
                if isinstance(event, TurnFinished):
                    self._check_reply()
                    while await self._is_checking():
                        yield Heartbeat()
                    pending = self._drop_log_probs(pending)
                elif not self._stream:
                    continue  # The client has nothing yet, so all can be replaced.
                if self._safety.decision is not None:
                    break
                for each in pending:
                    self._has_text |= isinstance(each, TextDelta | RefusalDelta)
                    yield each
                pending.clear()
        if self._safety.decision is not None:
            for each in ending(self._safety, has_text=self._has_text):
                yield each

    def running_checks(self) -> list[asyncio.Task[None]]:
        """Return the checks that still run at the end of the reply.

        Of a reply that was cut, what the client has received is checked now.
        """
        if self._has_text and not self._is_reply_checked:
            self._check_reply(is_cut=True)
        return [task for task in self._tasks if not task.done()]

    async def _filter(self, event: Event) -> list[Event]:
        """Return the events that pass now."""
        chars = 0
        if isinstance(event, TextDelta | RefusalDelta | ReasoningDelta):
            chars = len(event.text)
        if not self._stream:
            chars = self._length = self._length + chars
        return await check_runner.run_rule(partial(self._filter_inline, event), chars)

    def _filter_inline(self, event: Event) -> list[Event]:
        match event:
            case TextDelta() | RefusalDelta() | ReasoningDelta() if self._holds_text:
                passed = [] if type(event) is self._kind else self._flush()
                self._kind = type(event)
                text = self._window.add(event.text)
                return [*passed, self._kind(text)] if text else passed
            case LogProbs() if self._holds_text and self._stream:
                return []  # They would show tokens before the text has passed.
            case ToolCallDelta() if self._holds_calls:
                self._calls.append(event)
                return []
            case Heartbeat() | LogProbs():
                return [event]
            case TurnFinished():
                exchange = tuple(map(self._mask_message, event.exchange))
                finished = replace(event, exchange=exchange)
                return [*self._flush(), *self._calls, finished]
            case _:
                return [*self._flush(), event]

    def _flush(self) -> list[Event]:
        text = self._window.flush() if self._holds_text else ""
        return [self._kind(text)] if text else []

    def _drop_log_probs(self, passed: list[Event]) -> list[Event]:
        """Return the events without log probabilities if the text was changed."""
        sent = Reply()
        for event in passed:
            sent.add(event)
        if (sent.text, sent.refusal) == (self._raw.text, self._raw.refusal):
            return passed
        return [event for event in passed if not isinstance(event, LogProbs)]

    def _note(self) -> None:
        for finding in self._window.take_found():
            self._safety.add(finding)

    def _mask_message(self, message: Message) -> Message:
        """Return a message of the exchange as its client received it."""
        if message.role != "assistant" or not isinstance(message.content, str):
            return message
        masked = TextWindow(self._windowed, None).check(message.content)
        return replace(message, content=masked)

    def _check_reply(self, *, is_cut: bool = False) -> None:
        """Start the checks of the whole reply."""
        self._is_reply_checked = True
        text = "\n\n".join(filter(None, (self._raw.text, self._raw.refusal)))
        checks = self._whole
        if is_cut or (not text and self._raw.tool_calls):
            # A cut text is no JSON, and a call of a tool needs none.
            checks = [each for each in checks if each.by.json_schema is None]
        context = self._messages.conversation
        messages = [*context, Message("assistant", text)]
        self._start(checks, CheckedMessages(messages, len(context)))

    def _start(self, checks: Sequence[SafetyCheck], messages: CheckedMessages) -> None:
        """Run checks as a task, which is not cancelled if the reply is cut."""
        if checks:
            run = check_runner.run_checks(self._safety, checks, messages)
            self._tasks.append(asyncio.create_task(run))

    async def _is_checking(self) -> bool:
        """Wait for the checks, at most until a heartbeat is due; return whether some
        still run."""
        if not self._tasks:
            return False
        done, running = await asyncio.wait(self._tasks, timeout=HEARTBEAT_SECONDS)
        for task in done:
            task.result()
        return bool(running)


def _can_end(checks: Sequence[SafetyCheck]) -> bool:
    return any(check.can_end_reply for check in checks)


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
