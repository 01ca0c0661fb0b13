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
from memory.transcript import withholding
from safety import (
    background_checks,
    check_runner,
    incidents,
    input_messages,
    output_guard,
)
from safety.config import SafetyCheck
from safety.input_messages import CheckedMessages
from safety.output_guard import OutputGuard
from safety.turn_safety import TurnSafety
from turns.lifecycle import turn_record
from turns.preparation import prompt, turn_builder
from turns.preparation.options import TurnOptions
from turns.safety import session_levels
from turns.tools import memory_tools
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
    run = _start(turn, safety, checks)
    try:
        # The checks go on if the client leaves, so that they cannot be evaded.
        await asyncio.gather(asyncio.shield(run), _read_session(safety))
    finally:
        await store_incidents(safety)
    if safety.decision is None and safety.hand_over is not None:
        turn = await _hand_over(turn, safety, safety.hand_over, options)
    turn = await _mask_earlier(turn, safety)
    return _instruct(turn, safety.instructions)


def _start(
    turn: Turn, safety: TurnSafety, checks: Sequence[SafetyCheck]
) -> asyncio.Task[None]:
    """Run checks of the input as a task, which may outlast the turn."""
    messages = _checked_messages(turn)
    task = asyncio.create_task(check_runner.run_checks(safety, checks, messages))
    safety.running.append(task)
    return task


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
        # Those before the reply that are not patterns do not run any more.
        safety.ended |= {check.name for check in own if check.when == "before"}
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
        if safety.is_input_pending:
            # Of what models may read in later turns.
            _start(turn, safety, safety.checks_beside)
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
        safety.running += guard.running_checks()
        await store_incidents(safety)


def finish_later(turn: Turn, safety: TurnSafety) -> None:
    """Wait in the background for the checks that outlast their turn.

    Until they have ended, its messages are withheld if one of them can refuse.
    """
    running = [task for task in safety.running if not task.done()]
    if running or safety.is_stored_withheld:
        background_checks.run_later(_finish(turn, safety, running))


async def _finish(
    turn: Turn, safety: TurnSafety, checks: Sequence[asyncio.Task[None]]
) -> None:
    if checks:
        await asyncio.wait(checks)
    await store_incidents(safety)
    is_released = safety.is_stored_withheld and not safety.is_input_refused
    if not is_released or memory_tools.touched_facts(turn.record).forgotten:
        return
    await database_executor.run(
        withholding.release_turn,
        turn.user_id,
        safety.turn.thread,
        safety.turn.turn_id,
    )


def _checked_messages(turn: Turn) -> CheckedMessages:
    messages = prompt.conversation(turn.prompt)
    context = stored = max(len(messages) - len(turn.new), 0)
    if turn.history_mode != "server":
        context, stored = input_messages.first_new(messages), 0
    sent = turn.request.messages
    instructions = [message for message in sent if message.role == "system"]
    return CheckedMessages(messages, context, stored, instructions)


async def _mask_earlier(turn: Turn, safety: TurnSafety) -> Turn:
    """Return the turn with a prompt whose earlier messages pass the rules, too."""
    checks = safety.earlier_rules
    if not checks or safety.decision is not None:
        return turn
    first = max(len(turn.prompt) - len(turn.new), 0)
    if turn.history_mode != "server":
        first = input_messages.first_new(turn.prompt)
    chars = sum(len(message.text) for message in turn.prompt)

    async def masked(messages: Sequence[Message]) -> Sequence[Message]:
        rule = partial(input_messages.mask_earlier, messages, checks, first)
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
