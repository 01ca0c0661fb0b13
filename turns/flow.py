"""One turn: prepare, answer, save.

*Prepare* and *save* each use the database once; *answer* does not use it. Streaming or
not, a turn yields the same events; the entry point encodes them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from agents import fallback_chain, loop
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from core import token_usage
from core.errors import CoulisseError
from core.events import Event, TurnFinished, TurnStarted
from core.messages import Message
from core.reply import Reply
from database.errors import TurnDiscarded
from telemetry.types import Outcome
from turns.lifecycle import turn_record
from turns.lifecycle.completion import save
from turns.preparation.turn_builder import prepare
from turns.safety import safety_checks
from turns.structured_output import reply_format
from turns.turn import Turn, TurnRequest

logger = logging.getLogger(__name__)


async def run(request: TurnRequest) -> AsyncGenerator[Event]:
    """Run one turn and yield its events, `TurnFinished` last.

    The turn is stored before `TurnFinished` is yielded, so a reply that was delivered
    whole is never lost. If the client disconnects (the generator is cancelled or
    closed) or the provider fails, the partial reply is stored. Raises subclasses of
    `CoulisseError`; if one is raised before the first event, no message is stored.
    """
    turn = await prepare(request)
    reply = Reply()
    has_started = False
    turn_record.register_live(turn)
    try:
        if turn.safety is not None:
            turn = await safety_checks.check_input(turn, request.options)
        async with aclosing(answer(turn)) as events:
            async for event in events:
                if not has_started:
                    has_started = True
                    waited = time.perf_counter() - turn.started.clock
                    turn.diagnostics.first_event_seconds = waited
                    yield TurnStarted(turn_record.served_by(turn), turn.headers)
                reply.add(event)
                if isinstance(event, TurnFinished):
                    event = replace(
                        event,
                        usage=token_usage.count_usage(turn.prompt, reply),
                        served_by=turn_record.served_by(turn),
                    )
                    await save(turn, reply)
                yield event
    except (asyncio.CancelledError, GeneratorExit):
        await save_interrupted(turn, reply, "cancelled")
        raise
    except Exception as exc:
        if isinstance(exc, CoulisseError):
            turn_record.annotate_error(exc, turn)
        await save_interrupted(turn, reply, "error", exc)
        raise
    finally:
        turn_record.unregister_live(turn)
        if turn.safety is not None:
            safety_checks.finish_later(turn, turn.safety)


def answer(turn: Turn) -> AsyncGenerator[Event]:
    """Call the model, and tools until it has answered. Stores only incidents."""
    if turn.safety is None:
        return _answer(turn)
    return safety_checks.check_reply(turn, turn.safety, _answer)


def _answer(turn: Turn) -> AsyncGenerator[Event]:
    request = turn.request
    # One chain for all requests of a repair, so that the same model continues.
    chain = FallbackChain(fallback_chain.models_for(turn.config, turn.agent))

    def ask(messages: Sequence[Message]) -> AsyncGenerator[Event]:
        return loop.run(
            AgentRun(
                turn.agent,
                chain,
                messages,
                request.parameters,
                extra_parameters=turn.extra_parameters,
                response_format=request.response_format,
                client_tools=request.tools,
                own_tools=turn.tools,
                tool_set=turn.tool_set,
                stream=request.stream,
                final_text_only=request.format is not None,
                user=turn.user_id.hex,
                record=turn.record,
            )
        )

    if request.format is None:
        return ask(turn.model_messages)
    if request.stream:
        return reply_format.check_stream(ask(turn.model_messages), request.format)
    return reply_format.repair_reply(ask, turn.model_messages, request.format)


async def save_interrupted(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None = None
) -> None:
    """Save a turn that failed or was cancelled, unless its reply is saved already."""
    if reply.finish_reason is not None:
        return
    try:
        await save(turn, reply, outcome=outcome, error=error)
    except TurnDiscarded:
        logger.info(
            "turn %s discarded: its user or task was erased, or its task reassigned",
            turn.request.turn_id,
        )
    except CoulisseError as exc:
        # The client left or receives the original error; this one is logged.
        logger.error("turn %s was not stored: %s", turn.request.turn_id, exc)
    except Exception:
        logger.exception("turn %s was not stored", turn.request.turn_id)
