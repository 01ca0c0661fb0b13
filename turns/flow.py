"""One turn, from top to bottom.

Who is asking, which agent answers, what it is told, what it says, what is kept.
*Prepare* is one trip to the database, *run* touches no table, *finish* is one trip.
Streaming or not, a turn is the same events; the way in encodes them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from access import identity
from agents import catalog, loop
from agents.config import AgentConfig
from agents.loop import Task
from config import live
from core import tokens, trace, usage
from core.errors import CoulisseError
from core.events import Event, Finished
from core.ids import TurnId, UserId
from core.messages import Message
from core.reply import Reply
from core.tools import Tool, definition
from core.trace import Call
from memory import gather, plan, wake
from memory.config import MemoryConfig
from memory.gather import Gathered, Wanted
from memory.lessons import Study
from memory.transcript import Entry
from providers import kinds
from providers.config import PROVIDERS, ProviderConfig
from telemetry.config import TELEMETRY, TelemetryConfig
from telemetry.known import Outcome, Record
from turns import context, keeping, lane, recollection, structured, toolbox
from turns.options import Options
from turns.toolbox import Toolbox

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a client asks, read and checked by the way in."""

    turn_id: TurnId
    agent: str
    messages: Sequence[Message]
    """All the request's messages, the system's among them."""
    options: Options
    parameters: Mapping[str, Any]
    """Sampling and tool parameters the request sets, under OpenAI's names."""
    tools: Sequence[dict[str, Any]] = ()
    """The client's own tools; their calls go back to the client."""
    format: structured.Format | None = None
    response_format: Mapping[str, Any] | None = None
    """The same as `format`, for providers that enforce it themselves."""
    stream: bool = False
    safety_identifier: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, on the calendar and on the clock that never jumps."""

    at: datetime = field(default_factory=trace.now)
    clock: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that is ready to run."""

    request: TurnRequest
    agent: AgentConfig
    provider: ProviderConfig
    user_id: UserId
    new: Sequence[Message]
    """The messages this turn adds to the transcript, before the reply."""
    prompt: Sequence[Message]
    memory: MemoryConfig
    study: Study | None
    """The wish to learn from this turn."""
    telemetry: TelemetryConfig
    began: Moment
    tools: Sequence[Tool] = ()
    """The agent's own, for this user."""
    record: list[Call] = field(default_factory=list)
    """What it has called until now."""


async def run(request: TurnRequest) -> AsyncGenerator[Event]:
    """Take one turn and yield what the model says, `Finished` last.

    The turn is stored before `Finished` is yielded, so a reply that was delivered
    whole is never lost. When the client leaves (the generator is cancelled or closed)
    or the provider breaks off, what was said until then is stored. Raises subclasses
    of `CoulisseError`; those that come before the first event leave no message.
    """
    turn = await prepare(request)
    reply = Reply()
    try:
        async with aclosing(_events(turn)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    reply.add(event)
                    event = replace(event, usage=usage.of(turn.prompt, reply))
                    await finish(turn, reply)
                else:
                    reply.add(event)
                yield event
    except (asyncio.CancelledError, GeneratorExit):
        await _finish_early(turn, reply, "cancelled")
        raise
    except Exception as exc:
        await _finish_early(turn, reply, "error", exc)
        raise


async def prepare(request: TurnRequest) -> Turn:
    """Find who asks and who answers, and compose the prompt."""
    began = Moment()
    config = live.current()
    agent = catalog.find(config, request.agent)
    user_id = identity.resolve(config, request.safety_identifier, request.user)
    options = request.options
    settings, remembering = plan.of_agent(config, agent.name)
    if options.is_memory_off:
        remembering = None
    tools = await Toolbox(config, user_id, options).open(agent)
    toolbox.check_names(agent, tools, request.tools)
    new: Sequence[Message] = context.new_messages(request.messages)
    instructions = [options.language_instruction]
    if request.format is not None:
        instructions.append(request.format.instruction)
    system = context.system_messages(agent.preamble, instructions, request.messages)
    wanted = Wanted(
        options.thread,
        agent.context_tokens
        - context.count_tokens([*system, *new])
        - context.count_tool_tokens([*request.tools, *map(definition, tools)]),
        settings,
        mid_exchange=context.is_mid_exchange(new),
        recall=None
        if remembering is None
        else await recollection.query(
            remembering, recollection.last_said(request.messages)
        ),
        brings_history=options.uses_client_history,
        time_zone=options.time_zone,
    )
    past = await _past(user_id, wanted)
    if options.uses_client_history:
        spoken = context.join([], context.conversation(request.messages))
    else:
        stored = context.without_audio(past.messages)
        new = context.with_its_calls(stored, new, request.messages)
        spoken = context.join(stored, new)
    return Turn(
        request=request,
        agent=agent,
        provider=config.get(PROVIDERS)[agent.provider],
        user_id=user_id,
        new=new,
        prompt=[*system, *context.told(past.block), *spoken],
        memory=settings,
        study=None if remembering is None else Study(agent.name, options.time_zone),
        telemetry=config.get(TELEMETRY),
        began=began,
        tools=tools,
    )


async def _past(user_id: UserId, wanted: Wanted) -> Gathered:
    """Return what the turn needs of the past, if anything, in one trip."""
    if wanted.brings_history and wanted.recall is None:
        return Gathered(())
    return await lane.run(gather.gather, user_id, wanted)


def _events(turn: Turn) -> AsyncGenerator[Event]:
    request = turn.request
    parameters = loop.parameters(turn.agent, request.parameters)
    if request.response_format and kinds.structured_outputs(turn.provider) == "native":
        parameters["response_format"] = request.response_format

    def ask(messages: Sequence[Message]) -> AsyncGenerator[Event]:
        return loop.run(
            Task(
                turn.agent,
                turn.provider,
                messages,
                parameters,
                client_tools=request.tools,
                own_tools=turn.tools,
                stream=request.stream,
                has_format=request.format is not None,
                user=turn.user_id.hex,
                record=turn.record,
            )
        )

    if request.format is None:
        return ask(turn.prompt)
    if request.stream:
        return structured.checked(ask(turn.prompt), request.format)
    return structured.repaired(ask, turn.prompt, request.format)


async def finish(
    turn: Turn,
    reply: Reply,
    *,
    outcome: Outcome = "ok",
    error: Exception | None = None,
) -> None:
    """Store what the turn added and what it called, in one trip, unless incognito.

    A turn that failed before it said anything adds nothing to the transcript.
    """
    if turn.request.options.is_incognito:
        return
    is_void = outcome == "error" and not reply.said_something
    study = None if is_void else turn.study
    await lane.run_to_end(
        keeping.keep,
        turn.user_id,
        turn.request.options.thread,
        turn.request.turn_id,
        () if is_void else _entries(turn, reply, outcome),
        study=study,
        cap=turn.memory.working_memory_cap,
        record=_record(turn, reply, outcome, error),
        results=_results(turn.new),
        telemetry=turn.telemetry,
    )
    if study is not None:
        wake.soon()


def _entries(turn: Turn, reply: Reply, outcome: Outcome) -> list[Entry]:
    importance = turn.memory.importance

    def entry(message: Message, count: int | None = None, **more: str) -> Entry:
        if message.role == "assistant":
            more["agent"] = turn.agent.name
        return Entry(
            message,
            tokens.estimate_message(message) if count is None else count,
            importance=getattr(importance, message.role),
            **more,
        )

    entries = [entry(message) for message in turn.new]
    if reply.said_something:
        said = reply.exchange or (reply.message(),)
        *_, last = (message for message in said if message.role == "assistant")
        how = (reply.finish_reason or "") if outcome == "ok" else outcome
        entries += [
            entry(message, _reply_tokens(turn, reply, last), finish_reason=how)
            if message is last
            else entry(message)
            for message in said
        ]
    return entries


def _record(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None
) -> Record:
    request = turn.request
    return Record(
        turn_id=request.turn_id,
        user_id=turn.user_id,
        thread=request.options.thread,
        agent=turn.agent.name,
        user_message=recollection.last_said(request.messages),
        is_streamed=request.stream,
        started_at=turn.began.at,
        seconds=time.perf_counter() - turn.began.clock,
        outcome=outcome,
        finish_reason=reply.finish_reason or "",
        error=None if error is None else _said_of(error),
        usage=trace.usage(turn.record),
        calls=turn.record,
    )


def _results(new: Sequence[Message]) -> dict[str, str]:
    """Return what the client's tools answered, by the ids of the calls."""
    return {
        message.tool_call_id: message.text
        for message in new
        if message.tool_call_id is not None
    }


def _said_of(error: Exception) -> str:
    """Return what the record says of an error: of a fault of ours, its kind alone."""
    is_ours = not isinstance(error, CoulisseError)
    return type(error).__name__ if is_ours else str(error)


def _reply_tokens(turn: Turn, reply: Reply, message: Message) -> int:
    """Return what the reply will cost in later prompts, without its thinking."""
    count = reply.usage
    if (
        count is None
        or not count.output_tokens
        # Some providers bill thinking without counting it apart.
        or (reply.reasoning and not count.reasoning_tokens)
        # With a format or tools the count may be the sum of several rounds.
        or turn.request.format is not None
        or turn.tools
        or reply.exchange
    ):
        return tokens.estimate_message(message)
    return count.output_tokens - count.reasoning_tokens + tokens.MESSAGE_OVERHEAD


async def _finish_early(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None = None
) -> None:
    if reply.finish_reason is not None:
        return
    try:
        await finish(turn, reply, outcome=outcome, error=error)
    except CoulisseError as exc:
        # The client is gone or about to hear of a worse error; say it in the log.
        logger.error("turn %s was not stored: %s", turn.request.turn_id, exc)
