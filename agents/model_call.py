"""One call of a model while it runs, and the race of two calls."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from agents.fallback_chain import Model
from core import token_usage, trace
from core.errors import error_type, recorded_text
from core.events import Event
from core.reply import Reply
from providers.model_request import ModelRequest

OUTPACED = "cancelled: another model began first"
"""The error of a call that lost its race."""


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call of a model, and its record."""

    model: Model
    request: ModelRequest
    entry: trace.ModelCall
    reply: Reply
    """All that it has replied."""
    events: AsyncGenerator[Event]
    tool_tokens: int
    """The estimated tokens of the tool definitions."""

    def record_usage(self) -> None:
        """Record what the provider bills: estimated if it has reported no usage.

        Cancelled calls count too, even if only the prompt was processed.
        """
        if self.reply.has_begun or self.entry.is_billed:
            self.entry.usage = self.reply.usage or token_usage.count_usage(
                self.request.messages,
                self.reply,
                tool_tokens=self.tool_tokens,
                response_format=self.request.parameters.get("response_format"),
            )
        self.entry.finish_reason = self.reply.finish_reason or ""


_Racers = dict[asyncio.Task[Event], RunningCall]
"""Calls, by the tasks that wait for their first events."""


async def race(
    first: RunningCall,
    start_second: Callable[[], RunningCall],
    *,
    after_seconds: float,
    on_failure: Callable[[RunningCall, Exception], bool],
) -> RunningCall:
    """Return the call whose reply begins first, its events from the beginning.

    The second call starts if the first one is silent for so long. The loser is
    cancelled. `on_failure` is called with a call that fails while the other runs, and
    returns whether the other may answer in its place. If not, or if both fail, the
    events of the last one raise its error.
    """
    tasks = {asyncio.create_task(_first_event(first)): first}
    try:
        done, _ = await asyncio.wait(tasks, timeout=after_seconds)
        if not done:
            second = start_second()
            tasks[asyncio.create_task(_first_event(second))] = second
        task = await _wait_for_winner(tasks, on_failure)
    except BaseException:
        await _drop(tasks)
        raise
    winner = tasks.pop(task)
    try:
        await _drop(tasks, OUTPACED)
    except BaseException:
        # The caller leaves, and does not know yet of this call.
        await winner.events.aclose()
        winner.record_usage()
        raise
    winner.events = _replay(task, winner.events)
    return winner


async def _wait_for_winner(
    tasks: _Racers, on_failure: Callable[[RunningCall, Exception], bool]
) -> asyncio.Task[Event]:
    """Return the task of the winner; remove the one that has failed."""
    while True:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        task = min(done, key=lambda each: each.exception() is not None)
        call, error = tasks[task], task.exception()
        if not isinstance(error, Exception) or len(tasks) == 1:
            return task
        if not on_failure(call, error):
            return task
        del tasks[task]
        call.entry.end(error=recorded_text(error), error_type=error_type(error))
        call.record_usage()


async def _drop(tasks: _Racers, error: str = "") -> None:
    """Cancel calls, and record what their providers bill."""
    try:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for call in tasks.values():
            if error:
                call.entry.end(error=error)
            call.record_usage()
    for call in tasks.values():
        await call.events.aclose()


async def _first_event(call: RunningCall) -> Event:
    return await anext(call.events)


async def _replay(
    first: asyncio.Task[Event], events: AsyncGenerator[Event]
) -> AsyncGenerator[Event]:
    """Yield an event that was read already, or raise its error; then the others."""
    async with aclosing(events):
        yield first.result()
        async for event in events:
            yield event
