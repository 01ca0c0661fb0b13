"""The safety checks of a turn before, beside and after its reply."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from core.events import Event, TurnFinished
from core.messages import Message
from database import database_executor
from database.errors import DatabaseDown
from safety import (
    background_checks,
    check_runner,
    incidents,
    input_messages,
    output_guard,
)
from safety.input_messages import CheckedMessages
from safety.output_guard import OutputGuard
from safety.turn_safety import TurnSafety
from turns.lifecycle import turn_record
from turns.preparation import prompt, turn_builder
from turns.preparation.options import TurnOptions
from turns.safety import session_levels
from turns.turn import Turn

logger = logging.getLogger(__name__)


async def check_input(turn: Turn, options: TurnOptions) -> Turn:
    """Run the checks before the reply; return the turn that replies.

    It may have further instructions, or be that of another agent, for which `options`
    are those of the request.
    """
    safety = turn.safety
    if safety is None:
        return turn
    checks = safety.checks_at("before", is_windowed=False)
    try:
        await asyncio.gather(
            _read_session(safety),
            check_runner.run_checks(safety, checks, _checked_messages(turn)),
        )
    finally:
        await store_incidents(safety)
    if safety.decision is None and safety.hand_over is not None:
        turn = await _hand_over(turn, safety, safety.hand_over, options)
    turn = await _mask_refused(turn, safety)
    return _instruct(turn, safety.instructions)


async def _hand_over(
    turn: Turn, safety: TurnSafety, agent: str, options: TurnOptions
) -> Turn:
    """Prepare the turn again for another agent, which the caller need not be allowed.

    Its own checks by patterns apply, and those beside and after the reply.
    """
    caller = turn.request.caller
    if caller.token is not None:
        caller = replace(caller, token=replace(caller.token, agents=None))
    request = replace(turn.request, agent=agent, caller=caller, options=options)
    # First, so that a user at a limit is not refused the other agent.
    await database_executor.run_to_end(turn.usage_grant.take_reservation().release)
    other = await turn_builder.prepare(request)
    safety.turn = replace(
        safety.turn, agent=other.agent.name, thread=other.request.options.thread
    )
    if other.safety is not None:
        known = {check.name for check in safety.checks}
        own = [each for each in other.safety.checks if each.name not in known]
        safety.checks = [*safety.checks, *own]
        for finding in other.safety.findings:
            if finding.check.name not in known:
                safety.add(finding)
        await store_incidents(safety)
    turn_record.unregister_live(turn)
    other.embeddings.extend(turn.embeddings)
    other = replace(other, safety=safety, record=turn.record)
    turn_record.register_live(other)
    return other


def _instruct(turn: Turn, instructions: Sequence[str]) -> Turn:
    """Return the turn with instructions after the other system messages."""
    if not instructions:
        return turn
    message = Message("system", "\n\n".join(instructions))

    def add(messages: Sequence[Message]) -> Sequence[Message]:
        position = len(prompt.leading_system(messages))
        return [*messages[:position], message, *messages[position:]]

    return replace(
        turn, prompt=add(turn.prompt), model_messages=add(turn.model_messages)
    )


async def check_reply(
    turn: Turn, safety: TurnSafety, answer: Callable[[Turn], AsyncGenerator[Event]]
) -> AsyncGenerator[Event]:
    """Yield the events of a turn's reply, checked while they arrive."""
    if safety.decision is not None:
        for event in output_guard.ending(safety):
            yield event
        return
    is_streamed = turn.request.stream
    guard = OutputGuard(safety, _checked_messages(turn), stream=is_streamed)
    try:
        async with aclosing(guard.run(answer(turn))) as events:
            async for event in events:
                if isinstance(event, TurnFinished):
                    await store_incidents(safety)
                yield event
    finally:
        if running := guard.running_checks():
            background_checks.run_later(_finish(safety, running))
        await store_incidents(safety)


async def _finish(safety: TurnSafety, checks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(checks)
    await store_incidents(safety)


def _checked_messages(turn: Turn) -> CheckedMessages:
    messages = prompt.conversation(turn.prompt)
    if turn.history_mode == "server":
        context = max(len(messages) - len(turn.new), 0)
    else:
        context = input_messages.first_new(messages)
    return CheckedMessages(messages, context, turn.request.messages)


async def _mask_refused(turn: Turn, safety: TurnSafety) -> Turn:
    """Return the turn without earlier messages that a rule refuses.

    Those that the server keeps were withheld when they were refused.
    """
    checks = safety.refusing_rules
    if not checks or turn.history_mode == "server" or safety.decision is not None:
        return turn

    chars = sum(len(message.text) for message in turn.prompt)

    async def masked(messages: Sequence[Message]) -> Sequence[Message]:
        rule = partial(input_messages.mask_refused, messages, checks)
        return await check_runner.run_rule(rule, chars)

    told = shown = await masked(turn.prompt)
    if turn.model_messages is not turn.prompt:
        told = await masked(turn.model_messages)
    return replace(turn, prompt=shown, model_messages=told)


async def _read_session(safety: TurnSafety) -> None:
    """Read the highest levels of the session, which an incognito turn has not."""
    if not safety.turn.is_incognito:
        safety.session = await database_executor.run(session_levels.read, safety.turn)


async def store_incidents(safety: TurnSafety) -> None:
    """Store what was found since the last call, also if the turn fails later."""
    found = safety.take_unstored()
    if not found:
        return
    try:
        await database_executor.run_to_end(incidents.store, safety.turn, found)
    except DatabaseDown:
        logger.exception("%d safety incidents were not stored", len(found))
