"""One turn, from top to bottom.

Who is asking, which agent answers, what it is told, what it says, what is kept.
*Prepare* is one trip to the database, *run* touches no table, *finish* is one trip.
Streaming or not, a turn is the same events; the way in encodes them.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from access.users import identity
from agents import fallback_chain, loop
from agents.config import AgentConfig
from agents.fallback_chain import Lineup
from agents.loop import Offer, Task
from config import live
from config.sections import Config
from core import token_usage
from core.errors import CoulisseError, recorded
from core.events import Begun, Event, Finished
from core.ids import UserId
from core.messages import Message
from core.reply import Reply
from core.tools import Tool
from database import database_executor
from database.errors import DatabaseDown, Unwanted
from memory import memory_settings
from memory.context import turn_context
from memory.context.turn_context import Gathered, Wanted
from memory.extraction import notifier
from memory.extraction.job_queue import Study
from memory.memory_settings import Memory
from memory.recall import query_embedding
from memory.transcript.message_rows import Entry
from providers.embeddings import usage_collector
from telemetry.config import TELEMETRY
from telemetry.log_output import logs
from telemetry.types import Outcome, Record
from turns.budget import async_reservations, request_limits, reservations
from turns.budget.reservations import Allowance, Wish
from turns.lifecycle import (
    deferred_charges,
    live_registration,
    post_turn_hooks,
    turn_record,
    turn_transaction,
)
from turns.lifecycle.deferred_charges import Debt
from turns.preparation import prompt, routing
from turns.preparation.routing import Route
from turns.structured_output import reply_format
from turns.tools import toolbox
from turns.tools.toolbox import Toolbox
from turns.turn import EndedTurn, Moment, Turn, TurnRequest

Write = Callable[[], None]

logger = logging.getLogger(__name__)


async def run(request: TurnRequest) -> AsyncGenerator[Event]:
    """Take one turn and yield what the model says, `Finished` last.

    The turn is stored before `Finished` is yielded, so a reply that was delivered
    whole is never lost. When the client leaves (the generator is cancelled or closed)
    or the provider breaks off, what was said until then is stored. Raises subclasses
    of `CoulisseError`; those that come before the first event leave no message.
    """
    turn = await prepare(request)
    reply = Reply()
    has_begun = False
    live_registration.begin(turn)
    try:
        async with aclosing(events_of(turn)) as events:
            async for event in events:
                if not has_begun:
                    has_begun = True
                    yield Begun(turn_record.serving(turn), turn.allowance.headers)
                if isinstance(event, Finished):
                    reply.add(event)
                    event = replace(
                        event,
                        usage=token_usage.of(turn.prompt, reply),
                        serving=turn_record.serving(turn),
                    )
                    await finish(turn, reply)
                else:
                    reply.add(event)
                yield event
    except (asyncio.CancelledError, GeneratorExit):
        await _finish_early(turn, reply, "cancelled")
        raise
    except Exception as exc:
        if isinstance(exc, CoulisseError):
            turn_record.sign(exc, turn)
        await _finish_early(turn, reply, "error", exc)
        raise
    finally:
        live_registration.end(turn)


async def prepare(request: TurnRequest) -> Turn:
    """Find who asks and who answers, and compose the prompt."""
    began = Moment()
    embeddings = usage_collector.start()
    config = live.current()
    user_id = request.user_id
    _check_caller(config, request)
    route = await routing.find(config, request.agent, user_id)
    agent = route.agent
    memory = _memory(config, request, agent)
    new: Sequence[Message] = prompt.new_messages(request.messages)
    tools = await _tools(config, request, user_id, agent)
    system = _system(request, agent)
    offer = loop.offer(request.tools, tools, request.parameters)
    count = _counter(config, request, agent, offer)
    left_tokens = agent.context_tokens - count([*system, *new])

    def count_prompt(past: Gathered) -> int:
        _, spoken = _conversation(request, past, new)
        return count([*system, *prompt.told(past.block), *spoken])

    wish = _wish(request, config, route, user_id, count_prompt, began)
    if wish.is_limited and memory.has_paid_embedder:
        # Recall calls its API before anything is reserved, and the call is billed.
        await database_executor.run(reservations.check, wish)
    allowance: Allowance | None = None
    try:
        wanted = await _wanted(request, memory, new, left_tokens)
        past, allowance = await _past(wanted, wish)
        if request.format is not None:
            # Not before the limits allow the turn: a schema can be costly to compile.
            await request.format.compile()
        new, spoken = _conversation(request, past, new)
    except BaseException:
        # Embeddings for recall are billed even if the turn does not begin.
        charge = request_limits.charge_of(config, embeddings)
        async_reservations.give_back(allowance or Allowance(wish.charged()), charge)
        raise
    return Turn(
        request=request,
        agent=agent,
        user_id=user_id,
        new=new,
        prompt=[*system, *prompt.told(past.block), *spoken],
        memory=memory.settings,
        study=_study(request, memory, agent),
        telemetry=config.get(TELEMETRY),
        began=began,
        config=config,
        allowance=allowance,
        recalled=past.facts,
        tools=tools,
        offer=offer,
        experiment=route.experiment,
        embeddings=embeddings,
    )


def _check_caller(config: Config, request: TurnRequest) -> None:
    """Raise `AgentUnknown` or `IdentityRefused` for what the caller may not ask for."""
    routing.check(config, request.agent, offered=request.caller.agents)
    identity.check_user(request.caller, request.user_id)


def _memory(config: Config, request: TurnRequest, agent: AgentConfig) -> Memory:
    """Return how the agent remembers; without a plan where the request wants none."""
    memory = memory_settings.of_agent(config, agent.name)
    return Memory(memory.settings, None) if request.options.is_memory_off else memory


async def _tools(
    config: Config, request: TurnRequest, user_id: UserId, agent: AgentConfig
) -> list[Tool]:
    """Return the agent's own; raises `Invalid` for a name the client brings, too."""
    box = Toolbox(config, user_id, request.options, request=request)
    tools = await box.open(agent)
    toolbox.check_names(agent, tools, request.tools)
    return tools


def _system(request: TurnRequest, agent: AgentConfig) -> list[Message]:
    """Return the system messages: the agent's, the request's and what it asks for."""
    instructions = [request.options.language_instruction]
    if request.format is not None:
        instructions.append(request.format.instruction)
    return prompt.system_messages(agent.preamble, instructions, request.messages)


def _counter(
    config: Config, request: TurnRequest, agent: AgentConfig, offer: Offer
) -> Callable[[Sequence[Message]], int]:
    """Return what counts the tokens of a call with some messages of this turn."""
    is_sent = request.response_format is not None and any(
        model.takes_format for model in fallback_chain.of(config, agent)
    )
    return partial(
        token_usage.count_sent,
        tool_tokens=offer.tool_tokens,
        response_format=request.response_format if is_sent else None,
    )


async def _wanted(
    request: TurnRequest, memory: Memory, new: Sequence[Message], max_tokens: int
) -> Wanted:
    """Return what the turn wants of the past, which may take so many tokens."""
    options = request.options
    recall = None
    if memory.plan is not None:
        said = query_embedding.last_said(request.messages)
        recall = await query_embedding.query(memory.plan, said)
    return Wanted(
        options.thread,
        max_tokens,
        memory.settings,
        mid_exchange=prompt.is_mid_exchange(new),
        recall=recall,
        brings_history=options.uses_client_history,
        time_zone=options.time_zone,
    )


def _wish(
    request: TurnRequest,
    config: Config,
    route: Route,
    user_id: UserId,
    count_prompt: Callable[[Gathered], int],
    began: Moment,
) -> Wish:
    """Return what the turn wants to use."""
    return Wish(
        config=config,
        caller=request.caller,
        user_id=user_id,
        agent=route.agent,
        experiment=route.experiment,
        asked=request.options.token_limits,
        count_prompt=count_prompt,
        parameters=request.parameters,
        now=int(began.at.timestamp()),
        is_incognito=request.options.is_incognito,
        is_exempt=request.origin == "smoke",
    )


def _study(request: TurnRequest, memory: Memory, agent: AgentConfig) -> Study | None:
    """Return the wish to learn from the turn, if it is one to learn from."""
    if memory.plan is None or not request.learns:
        return None
    return Study(agent.name, request.options.time_zone)


def _conversation(
    request: TurnRequest, past: Gathered, new: Sequence[Message]
) -> tuple[Sequence[Message], list[Message]]:
    """Return what the turn adds to the transcript, and all the model is told of it."""
    if request.options.uses_client_history:
        return new, prompt.join([], prompt.conversation(request.messages))
    stored = prompt.without_audio(past.messages)
    new = prompt.with_its_calls(stored, new, request.messages)
    return new, prompt.join(stored, new)


async def _past(wanted: Wanted, wish: Wish) -> tuple[Gathered, Allowance]:
    """Return what the turn needs of the past and may use, in one trip or none."""
    if wish.is_limited:
        return await async_reservations.grant(wanted, wish)
    past = Gathered(())
    if wanted.is_anything:
        past = await database_executor.run(turn_context.gather, wish.user_id, wanted)
    return past, Allowance(wish.charged())


def events_of(turn: Turn) -> AsyncGenerator[Event]:
    """Have the model answer a turn that is ready to run; nothing is stored."""
    request = turn.request
    # One for all that a repair asks, so that who answered goes on.
    answering = Lineup(fallback_chain.of(turn.config, turn.agent))

    def ask(messages: Sequence[Message]) -> AsyncGenerator[Event]:
        return loop.run(
            Task(
                turn.agent,
                answering,
                messages,
                request.parameters,
                response_format=request.response_format,
                client_tools=request.tools,
                own_tools=turn.tools,
                offered=turn.offer,
                stream=request.stream,
                says_last_alone=request.format is not None,
                user=turn.user_id.hex,
                record=turn.record,
            )
        )

    if request.format is None:
        return ask(turn.prompt)
    if request.stream:
        return reply_format.checked(ask(turn.prompt), request.format)
    return reply_format.repaired(ask, turn.prompt, request.format)


async def finish(
    turn: Turn,
    reply: Reply,
    *,
    outcome: Outcome = "ok",
    error: Exception | None = None,
) -> None:
    """Store what the turn added and what it called, in one trip, unless incognito.

    A turn that failed before it said anything adds nothing to the transcript, nor does
    a task's that failed at all, for it may be tried again. What it used is charged
    whatever became of it. Raises `Unwanted` if nobody may store it any more.
    """
    charge = turn_record.charge(turn)
    if turn.embeddings:
        charge += request_limits.charge_of(turn.config, turn.embeddings)
    record = turn_record.record(turn, reply, outcome, error)
    settle = partial(reservations.settle, turn.allowance, charge)
    also = partial(post_turn_hooks.write, EndedTurn(turn, reply, record, outcome))
    is_incognito = turn.request.options.is_incognito
    is_void = outcome == "error" and (
        turn.request.origin == "task" or not reply.said_something
    )
    study = None if is_void else turn.study
    try:
        if is_incognito:
            await _keep_nothing(turn, settle, also)
            return
        entries = () if is_void else turn_record.entries(turn, reply, outcome)
        await _keep(turn, record, entries, study, settle, also)
    except DatabaseDown as exc:
        if charge.tokens or turn.allowance.reservation is not None:
            lost = replace(record, outcome="error", error=recorded(error or exc))
            debt = Debt(lost, charge, settle)
            deferred_charges.owe(debt, turn.telemetry, is_recorded=not is_incognito)
        raise
    # Here and not beside the tables: their thread has the event loop wait for it.
    if turn.telemetry.fmt.enabled:
        logs.turn_ended(record)
    if study is not None:
        notifier.soon()


async def _keep_nothing(turn: Turn, settle: Write, also: Write) -> None:
    if turn.allowance.is_charged or turn.request.on_end is not None:
        await database_executor.run_to_end(
            turn_transaction.keep_nothing, settle=settle, also=also
        )


async def _keep(
    turn: Turn,
    record: Record,
    entries: Sequence[Entry],
    study: Study | None,
    settle: Write,
    also: Write,
) -> None:
    await database_executor.run_to_end(
        turn_transaction.keep,
        record,
        entries,
        study=study,
        cap=turn.memory.working_memory_cap,
        results=turn_record.results(turn.new),
        telemetry=turn.telemetry,
        settle=settle,
        also=also,
    )


async def _finish_early(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None = None
) -> None:
    if reply.finish_reason is not None:
        return
    try:
        await finish(turn, reply, outcome=outcome, error=error)
    except Unwanted:
        logger.info("turn %s is nobody's any more", turn.request.turn_id)
    except CoulisseError as exc:
        # The client is gone or about to hear of a worse error; say it in the log.
        logger.error("turn %s was not stored: %s", turn.request.turn_id, exc)
    except Exception:
        logger.exception("turn %s was not stored", turn.request.turn_id)
