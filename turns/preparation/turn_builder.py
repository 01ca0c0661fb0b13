"""Prepares a turn: resolves the user and the agent, and composes the prompt."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from access.users import identity
from agents import fallback_chain, prompt_limit
from agents.config import AgentConfig
from agents.state import presentation
from agents.tool_set import ToolSet, build_tool_set
from config import live
from config.sections import Config
from core import token_usage
from core.history import History, HistoryMode
from core.messages import Message
from core.runtime import request_facts
from core.tools import Tool
from database import database_executor, running_processes
from memory import memory_settings
from memory.config import scope_key
from memory.extraction.extraction_tasks import ExtractionRequest
from memory.memory_settings import ResolvedMemory
from memory.recall import query_embedding
from memory.recall.context.turn_context import ContextQuery, StateQuery
from providers.config import PROVIDERS
from providers.embeddings import usage_collector
from providers.embeddings.usage_collector import EmbeddingCall
from telemetry.config import TELEMETRY
from telemetry.tracing import turn_spans
from telemetry.types import Diagnostics
from turns.budget import (
    async_reservations,
    request_limits,
    request_usage,
    reservations,
)
from turns.budget.reservations import TurnUsageRequest
from turns.budget.usage_grant import UsageGrant
from turns.config import HISTORY
from turns.preparation import attachments, extra_parameters, options, prompt, routing
from turns.preparation.extra_parameters import NO_PARAMETERS, ExtraParameters
from turns.preparation.prompt_draft import PromptDraft
from turns.safety import input_masks
from turns.tools import toolbox
from turns.tools.state_tool import TurnState
from turns.tools.toolbox import Toolbox
from turns.turn import StartTime, Turn, TurnRequest


async def prepare(request: TurnRequest) -> Turn:
    """Return a turn that is ready to run: its prompt is composed, its usage reserved.

    Uses the database once. If it raises, the reservation is released.
    """
    running_processes.refuse_if_unwritable()
    started = StartTime()
    embeddings = usage_collector.start_collecting()
    config = live.current()
    span = turn_spans.start(config, is_incognito=request.options.is_incognito)
    if request.options.is_incognito:
        request_facts.note(user=None)  # Also if the turn is refused below.
    _check_caller(config, request)
    route = await routing.choose_agent(config, request.agent, request.user_id)
    agent = route.agent
    safety = input_masks.start(config, request, agent)
    if safety is not None:
        request = await input_masks.mask_input(request, safety)
    request = await attachments.describe_files(request, config, agent)
    extras = _extra_parameters(config, request, agent)
    history_mode = choose_history_mode(config, request, agent)
    if agent.threads == "own":
        own = options.with_own_thread(request.options, request.agent, history_mode)
        request = replace(request, options=own)
        if safety is not None:
            safety.turn = replace(safety.turn, thread=own.thread)
    memory = _memory(config, request, agent, history_mode)
    state = None
    if agent.state and history_mode != "none":
        state = TurnState(agent.state)
    tools = await _tools(config, request, agent, state, history_mode)
    tool_set = build_tool_set(request.tools, tools, request.parameters)
    count_tokens = _prompt_counter(config, request, agent, tool_set)
    max_tokens = prompt_limit.context_tokens(config, agent)
    draft = PromptDraft.of(request, agent, history_mode, count_tokens, max_tokens)
    now = int(started.at.timestamp())
    usage = TurnUsageRequest(config, request, route, draft.count, now)
    await _check_limits_of_recall(usage, memory)
    grant: UsageGrant | None = None
    try:
        query = await _query(request, memory, draft, state)
        diagnostics, before = query.diagnostics, time.perf_counter()
        context, grant = await async_reservations.load_context_and_reserve(query, usage)
        diagnostics.database_seconds = time.perf_counter() - before
        if state is not None:
            state.values = context.state
        if request.format is not None:
            # Not before the limits allow the turn: a schema can be costly to compile.
            await request.format.compile()
        composed = draft.compose(context)
        model_messages = await attachments.load_files(
            request.user_id, composed.messages, config, agent, new=composed.new
        )
    except BaseException:
        release(grant or UsageGrant(usage.counter_keys()), config, embeddings)
        raise
    diagnostics.prepare_seconds = time.perf_counter() - started.clock
    return Turn(
        request=request,
        agent=agent,
        user_id=request.user_id,
        history_mode=history_mode,
        new=composed.new,
        prompt=composed.messages,
        model_messages=model_messages,
        memory=memory.settings,
        extraction_request=_extraction_request(request, memory, agent),
        telemetry=config.get(TELEMETRY),
        started=started,
        config=config,
        usage_grant=grant,
        headers={**grant.headers, **composed.headers, **extras.headers},
        extra_parameters=extras.passed,
        recalled_fact_ids=context.facts,
        tools=tools,
        tool_set=tool_set,
        state=state,
        experiment=route.experiment,
        embeddings=embeddings,
        record=[] if safety is None else safety.record,
        safety=safety,
        diagnostics=diagnostics,
        span=span,
    )


def release(
    grant: UsageGrant, config: Config, embeddings: Sequence[EmbeddingCall]
) -> None:
    """Release the usage of a turn that does not begin.

    If it called an API for embeddings, it is charged and counts as a request.
    """
    if not embeddings:
        async_reservations.release_later(grant)
        return
    charge = request_limits.embedding_charge(config, embeddings)
    settle = request_usage.settle_usage
    async_reservations.run_later(partial(settle, grant, charge, config, embeddings))


async def _check_limits_of_recall(
    usage: TurnUsageRequest, memory: ResolvedMemory
) -> None:
    """Check the limits if recall calls an API, which is billed, before it reserves."""
    if usage.is_limited and memory.has_paid_embedder:
        await database_executor.run(reservations.check_limits, usage)


def _check_caller(config: Config, request: TurnRequest) -> None:
    """Raise `AgentUnknown` or `IdentityRefused` if the caller may not use the agent."""
    routing.check_name(config, request.agent, allowed=request.caller.agents)
    identity.check_user(request.caller, request.user_id)


def _extra_parameters(
    config: Config, request: TurnRequest, agent: AgentConfig
) -> ExtraParameters:
    if not request.parameters and not request.extra_parameters:
        return NO_PARAMETERS
    model = fallback_chain.primary_model(agent, config.get(PROVIDERS)[agent.provider])
    return extra_parameters.select(
        agent, model, request.parameters, request.extra_parameters
    )


def choose_history_mode(
    config: Config, request: TurnRequest, agent: AgentConfig
) -> HistoryMode:
    """Return who keeps the conversation: the most specific setting wins.

    `auto` is decided by the messages: with a reply among them, it is the client.
    """
    given = request.options
    if given.is_incognito:
        return "none"
    named = given.history or request.caller.history or agent.history
    setting: History = config.get(HISTORY) if named is None else named
    if setting != "auto":
        return setting
    return "client" if prompt.has_reply(request.messages) else "server"


def _memory(
    config: Config, request: TurnRequest, agent: AgentConfig, history_mode: HistoryMode
) -> ResolvedMemory:
    """Return the agent's memory settings, without user memory if it is off."""
    memory = memory_settings.resolve_for_agent(config, agent.name)
    if request.options.is_memory_off or history_mode == "none":
        return ResolvedMemory(memory.settings, None)
    return memory


async def _tools(
    config: Config,
    request: TurnRequest,
    agent: AgentConfig,
    state: TurnState | None,
    history_mode: HistoryMode,
) -> list[Tool]:
    """Return the agent's tools; raises `Invalid` for a name the client also uses."""
    box = Toolbox(
        config,
        request.user_id,
        request.options,
        request=request,
        state=state,
        is_thread_known=options.is_thread_known(request.options, history_mode),
    )
    tools = await box.open(agent)
    toolbox.check_names(agent, tools, request.tools)
    return tools


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
    draft: PromptDraft,
    state: TurnState | None,
) -> ContextQuery:
    """Return what to read for the turn, within the tokens that the draft leaves."""
    given = request.options
    recall, diagnostics = None, Diagnostics()
    is_scope_unknown = memory.settings.scope == "thread" and (
        not options.is_thread_known(given, draft.history_mode)
    )
    if memory.user_memory is not None and not is_scope_unknown:
        text = query_embedding.last_user_text(request.messages)
        before = time.perf_counter()
        recall = await query_embedding.build_query(memory.user_memory, text)
        diagnostics.embedding_seconds = time.perf_counter() - before
    return ContextQuery(
        given.thread,
        draft.remaining_tokens,
        memory.settings,
        mid_exchange=draft.is_mid_exchange,
        recall_query=recall,
        client_sends_history=draft.history_mode != "server",
        continues=given.continues,
        sent_replies=draft.open_exchange(),
        time_zone=given.time_zone,
        scope=scope_key(memory.settings.scope, draft.agent.name, given.thread),
        begins_conversation=draft.history_mode == "client" and not draft.has_reply,
        state=None if state is None else _state_query(draft),
        diagnostics=diagnostics,
    )


def _state_query(draft: PromptDraft) -> StateQuery:
    render = partial(
        presentation.render_state,
        draft.agent.state,
        context_tokens=draft.context_tokens,
    )
    return StateQuery(draft.agent.name, render)


def _extraction_request(
    request: TurnRequest, memory: ResolvedMemory, agent: AgentConfig
) -> ExtractionRequest | None:
    """Return the request to extract facts from the turn, if they may be extracted.

    Without memory, the turn is only made searchable, for an agent with the tools.
    """
    if not request.learns:
        return None
    if memory.user_memory is None:
        is_searched = agent.memory_tools and not request.options.is_memory_off
        if not is_searched:
            return None
    return ExtractionRequest(
        agent.name,
        request.options.time_zone,
        is_search_only=memory.user_memory is None,
        opens_session=memory.user_memory is not None
        and memory.settings.sessions is not None,
    )
