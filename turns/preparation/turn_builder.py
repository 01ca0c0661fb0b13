"""Prepares a turn: resolves the user and the agent, and composes the prompt."""

from collections.abc import Callable, Sequence
from functools import partial

from access.users import identity
from agents import fallback_chain, loop
from agents.config import AgentConfig
from agents.loop import ToolSet
from config import live
from config.sections import Config
from core import token_usage
from core.messages import Message
from core.tools import Tool
from database import database_executor
from memory import memory_settings
from memory.extraction.job_queue import ExtractionRequest
from memory.memory_settings import ResolvedMemory
from memory.recall import query_embedding
from memory.recall.context.turn_context import Context, ContextQuery
from providers.embeddings import usage_collector
from telemetry.config import TELEMETRY
from turns.budget import async_reservations, request_limits, reservations
from turns.budget.reservations import TurnUsageRequest, UsageGrant
from turns.preparation import prompt, routing
from turns.preparation.routing import Route
from turns.tools import toolbox
from turns.tools.toolbox import Toolbox
from turns.turn import StartTime, Turn, TurnRequest


async def prepare(request: TurnRequest) -> Turn:
    """Return a turn that is ready to run: its prompt is composed, its usage reserved.

    Uses the database once. If it raises, the reservation is released.
    """
    started = StartTime()
    embeddings = usage_collector.start_collecting()
    config = live.current()
    _check_caller(config, request)
    route = await routing.choose_agent(config, request.agent, request.user_id)
    agent = route.agent
    memory = _memory(config, request, agent)
    new: Sequence[Message] = prompt.new_messages(request.messages)
    tools = await _tools(config, request, agent)
    system = _system(request, agent)
    tool_set = loop.build_tool_set(request.tools, tools, request.parameters)
    count_tokens = _prompt_counter(config, request, agent, tool_set)
    max_context_tokens = agent.context_tokens - count_tokens([*system, *new])

    def compose(context: Context, conversation: Sequence[Message]) -> list[Message]:
        memory_messages = prompt.memory_messages(context.memory_prompt)
        return [*system, *memory_messages, *conversation]

    def count_prompt(context: Context) -> int:
        _, conversation = _join_conversation(request, context, new)
        return count_tokens(compose(context, conversation))

    usage = _usage(request, config, route, count_prompt, started)
    if usage.is_limited and memory.has_paid_embedder:
        # Recall calls its API before anything is reserved, and the call is billed.
        await database_executor.run(reservations.check_limits, usage)
    grant: UsageGrant | None = None
    try:
        query = await _query(request, memory, new, max_context_tokens)
        context, grant = await async_reservations.load_context_and_reserve(query, usage)
        if request.format is not None:
            # Not before the limits allow the turn: a schema can be costly to compile.
            await request.format.compile()
        new, conversation = _join_conversation(request, context, new)
    except BaseException:
        # Embeddings for recall are billed even if the turn does not begin.
        charge = request_limits.embedding_charge(config, embeddings)
        async_reservations.release_later(grant or _empty_grant(usage), charge)
        raise
    return Turn(
        request=request,
        agent=agent,
        user_id=request.user_id,
        new=new,
        prompt=compose(context, conversation),
        memory=memory.settings,
        extraction_request=_extraction_request(request, memory, agent),
        telemetry=config.get(TELEMETRY),
        started=started,
        config=config,
        usage_grant=grant,
        recalled_fact_ids=context.facts,
        tools=tools,
        tool_set=tool_set,
        experiment=route.experiment,
        embeddings=embeddings,
    )


def _check_caller(config: Config, request: TurnRequest) -> None:
    """Raise `AgentUnknown` or `IdentityRefused` if the caller may not use the agent."""
    routing.check_name(config, request.agent, allowed=request.caller.agents)
    identity.check_user(request.caller, request.user_id)


def _memory(config: Config, request: TurnRequest, agent: AgentConfig) -> ResolvedMemory:
    """Return the agent's memory settings, without user memory if it is off."""
    memory = memory_settings.resolve_for_agent(config, agent.name)
    return (
        ResolvedMemory(memory.settings, None)
        if request.options.is_memory_off
        else memory
    )


async def _tools(
    config: Config, request: TurnRequest, agent: AgentConfig
) -> list[Tool]:
    """Return the agent's tools; raises `Invalid` for a name the client also uses."""
    box = Toolbox(config, request.user_id, request.options, request=request)
    tools = await box.open(agent)
    toolbox.check_names(agent, tools, request.tools)
    return tools


def _system(request: TurnRequest, agent: AgentConfig) -> list[Message]:
    """Return the system messages: the agent's, then the client's."""
    instructions = [request.options.language_instruction]
    if request.format is not None:
        instructions.append(request.format.instruction)
    return prompt.system_messages(agent.preamble, instructions, request.messages)


def _prompt_counter(
    config: Config, request: TurnRequest, agent: AgentConfig, tool_set: ToolSet
) -> Callable[[Sequence[Message]], int]:
    """Return a function that counts the tokens of a model call with given messages."""
    is_sent = request.response_format is not None and any(
        model.has_native_format for model in fallback_chain.models_for(config, agent)
    )
    return partial(
        token_usage.estimate_sent,
        tool_tokens=tool_set.tool_tokens,
        response_format=request.response_format if is_sent else None,
    )


async def _query(
    request: TurnRequest,
    memory: ResolvedMemory,
    new: Sequence[Message],
    max_tokens: int,
) -> ContextQuery:
    """Return what to read for the turn, within `max_tokens`."""
    options = request.options
    recall = None
    if memory.user_memory is not None:
        text = query_embedding.last_user_text(request.messages)
        recall = await query_embedding.build_query(memory.user_memory, text)
    return ContextQuery(
        options.thread,
        max_tokens,
        memory.settings,
        mid_exchange=prompt.is_mid_exchange(new),
        recall_query=recall,
        client_sends_history=options.uses_client_history,
        time_zone=options.time_zone,
    )


def _usage(
    request: TurnRequest,
    config: Config,
    route: Route,
    count_prompt: Callable[[Context], int],
    started: StartTime,
) -> TurnUsageRequest:
    """Return what to reserve for the turn."""
    return TurnUsageRequest(
        config=config,
        caller=request.caller,
        user_id=request.user_id,
        agent=route.agent,
        experiment=route.experiment,
        token_limits=request.options.token_limits,
        count_prompt=count_prompt,
        parameters=request.parameters,
        now=int(started.at.timestamp()),
        is_incognito=request.options.is_incognito,
        is_exempt=request.origin == "smoke",
    )


def _empty_grant(usage: TurnUsageRequest) -> UsageGrant:
    """Return a grant that reserves nothing, to charge what was used before it."""
    return UsageGrant(usage.counter_keys())


def _extraction_request(
    request: TurnRequest, memory: ResolvedMemory, agent: AgentConfig
) -> ExtractionRequest | None:
    """Return the request to extract facts from the turn, if they may be extracted."""
    if memory.user_memory is None or not request.learns:
        return None
    return ExtractionRequest(agent.name, request.options.time_zone)


def _join_conversation(
    request: TurnRequest, context: Context, new: Sequence[Message]
) -> tuple[Sequence[Message], list[Message]]:
    """Return the messages the turn adds to the transcript, and all those it sends."""
    if request.options.uses_client_history:
        return new, prompt.join([], prompt.conversation(request.messages))
    stored = prompt.without_audio(context.messages)
    new = prompt.with_answered_calls(stored, new, request.messages)
    return new, prompt.join(stored, new)
