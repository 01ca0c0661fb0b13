"""The agent loop: it calls the model until the turn is done.

A round is one call of the model. The loop executes calls of the agent's own tools,
hidden from the client, and starts another round. A call of a client's tool ends the
turn.
"""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agents import message_filters, model_call, rescue, tool_execution
from agents.config import AgentConfig
from agents.fallback_chain import FallbackChain, Model, accepted_extras
from agents.model_call import RunningCall
from agents.model_round import PromptCut, Round
from agents.stream_filter import StreamFilter
from agents.tool_set import ToolSet, build_tool_set, note_refusal, refuses_tools
from core import trace
from core.errors import CoulisseError, Invalid, error_type, recorded_text
from core.events import (
    Event,
    FinishReason,
    HandoffStarted,
    Heartbeat,
    ReasoningBlock,
    TextDelta,
    TurnFinished,
)
from core.messages import Message, ToolCall
from core.reply import Reply
from core.runtime import trace_context
from core.tools import Tool
from core.trace import Call
from providers import client, registry
from providers.errors import CONTEXT_TOO_LONG, ContentFiltered, RequestRefused
from providers.model_request import ModelRequest

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """The input of one run of an agent."""

    agent: AgentConfig
    fallback_chain: FallbackChain
    """The models that answer. Runs of one turn share the chain, so they continue with
    the model that answered last."""
    messages: Sequence[Message]
    parameters: Mapping[str, Any]
    """The request's parameters; they override the model's defaults."""
    extra_parameters: Mapping[str, Any] = field(default_factory=dict)
    """The request's parameters that OpenAI does not have."""
    response_format: Mapping[str, Any] | None = None
    """In OpenAI's format, for providers that enforce it."""
    client_tools: Sequence[dict[str, Any]] = ()
    """OpenAI tool objects; their calls go back to the client."""
    own_tools: Sequence[Tool] = ()
    """The agent's own tools; clients do not see their calls."""
    tool_set: ToolSet | None = None
    """The callable tools, if known already; otherwise derived from the tools above."""
    stream: bool = True
    final_text_only: bool = False
    """Whether text before a tool call is left out of the answer: because the answer
    must match a format, or because another agent waits for it."""
    is_live: bool = True
    """Whether a client receives the reply as it streams. Otherwise a reply that broke
    off can be restarted. False requires `final_text_only`."""
    user: str = ""
    """An opaque id of the end user, for the provider."""
    record: list[Call] = field(default_factory=list)
    """Each model call and tool call is appended here when it starts."""


async def run(agent_run: AgentRun) -> AsyncGenerator[Event]:
    """Yield the agent's events, `TurnFinished` last.

    Text is yielded as it arrives, including text before a tool call, unless
    `final_text_only` is set. After `max_turns` rounds with tools the model is called
    once more without tools. Failures of a tool, and calls of unknown tools, are
    returned to the model as results. Source: "Loop" of the reference's agents.
    """
    tool_set = agent_run.tool_set or build_tool_set(
        agent_run.client_tools, agent_run.own_tools, agent_run.parameters
    )
    stream_filter = StreamFilter(
        tool_set.client_names,
        final_text_only=agent_run.final_text_only,
        holds_calls=agent_run.agent.rescue != "off",
    )
    messages = list(agent_run.messages)
    cut = PromptCut()
    first_call = len(agent_run.record)
    for rounds_left in range(agent_run.agent.max_turns, -1, -1):
        parameters = tool_set.parameters_for_round(is_last=not rounds_left)
        agent_run.fallback_chain.next_round()
        current = Round(messages, parameters, stream_filter, cut=cut)
        async with aclosing(_call_model(agent_run, tool_set, current)) as events:
            async for event in events:
                if stream_filter.passes_unchanged(event):
                    yield event
                else:
                    for filtered in stream_filter.filter(event):
                        yield filtered
        reply = current.reply
        own_calls = tool_set.own_calls(reply.tool_calls)
        if not own_calls or not rounds_left:
            break
        messages.append(current.message)
        async with aclosing(
            _execute_tools(agent_run, tool_set, own_calls, messages)
        ) as tool_events:
            async for event in tool_events:
                yield event
        if len(own_calls) < len(reply.tool_calls):
            break
        stream_filter.next_round()
    _record_client_calls(agent_run, tool_set, reply)
    if reply.text and agent_run.final_text_only:
        yield TextDelta(reply.text)
    for block in current.message.reasoning:
        yield ReasoningBlock(block)
    yield TurnFinished(
        _finish_reason(reply, tool_set),
        trace.total_usage(agent_run.record[first_call:]),
        _complete_exchange(
            messages[len(agent_run.messages) :], current.message, tool_set
        ),
        stop_sequence=reply.stop_sequence,
    )


async def _execute_tools(
    agent_run: AgentRun,
    tool_set: ToolSet,
    calls: Sequence[ToolCall],
    messages: list[Message],
) -> AsyncGenerator[Event]:
    """Run calls and append their results; yield heartbeats meanwhile."""
    async with tool_execution.execute_tools(
        calls, tool_set.own, agent_run.record
    ) as execution:
        for agent in execution.handoffs:
            yield HandoffStarted(agent)
        while not await execution.wait():
            yield Heartbeat()
        messages += execution.messages()


def _record_client_calls(agent_run: AgentRun, tool_set: ToolSet, reply: Reply) -> None:
    for call in reply.tool_calls:
        if call.name in tool_set.client_names:
            entry = trace.TracedToolCall(
                call.name, "client", call.arguments, id=call.id
            )
            agent_run.record.append(entry)


def _finish_reason(last: Reply, tool_set: ToolSet) -> FinishReason:
    """Return the finish reason.

    A call in a round that forbids calls is no answer: it counts as `length`.
    """
    called = {call.name for call in last.tool_calls}
    if called & tool_set.client_names:
        return "tool_calls"
    if called:
        return "length"
    if last.finish_reason == "tool_calls":
        return "stop"  # It reports tool calls, but there are none.
    return last.finish_reason or "stop"


def _complete_exchange(
    messages: Sequence[Message], last: Message, tool_set: ToolSet
) -> tuple[Message, ...]:
    """Return the messages to store when the turn waits for a client's tool."""
    if not messages or not any(
        call.name in tool_set.client_names for call in last.tool_calls
    ):
        return ()
    has_last = any(message.tool_calls == last.tool_calls for message in messages)
    return (*messages,) if has_last else (*messages, last)


async def _call_model(
    agent_run: AgentRun, tool_set: ToolSet, current: Round
) -> AsyncGenerator[Event]:
    """Call the model, collect its reply and record the call.

    Retries without images in tool results, or without optional tools, if the model
    refuses them, and with the next model of the fallback chain if this one fails before
    the client received anything. A reply that breaks off later is continued.
    """
    while True:
        call = _start_call(agent_run, tool_set, current, agent_run.fallback_chain.model)
        try:
            if _may_hedge(agent_run, current):
                call = await _hedge(agent_run, tool_set, current, call)
            current.model = call.model
            current.reply = Reply(current.said) if current.said else call.reply
            async with aclosing(call.events) as events:
                async for event in events:
                    current.reply.add(event)
                    yield event
            call.entry.end()
            return
        except Exception as exc:
            call.entry.end(error=recorded_text(exc), error_type=error_type(exc))
            if isinstance(exc, CoulisseError):
                exc.provider = exc.provider or call.model.provider_name
            has_begun = call.reply.has_begun
            if _recover(agent_run, current, exc, has_begun=has_begun):
                call.entry.is_continued = has_begun
                continue
            final_error = agent_run.fallback_chain.final_error(exc)
            if final_error is exc:
                final_error = current.broken_by or exc
            if final_error is not exc:
                final_error.__cause__ = exc
            raise final_error  # noqa: B904 (it has its cause)
        finally:
            call.record_usage()


def _start_call(
    agent_run: AgentRun,
    tool_set: ToolSet,
    current: Round,
    model: Model,
    *,
    running: int = 1,
) -> RunningCall:
    """Return a call of a model, which is sent when its events are read.

    `running` counts the calls of the round that run then.
    """
    form = _form(agent_run, current, model)
    request = _build_request(agent_run, tool_set, current, model, form, running)
    entry = trace.ModelCall(
        agent_run.agent.name, model.provider_name, model.name, span=request.span
    )
    agent_run.record.append(entry)
    reply = Reply()
    events = client.run(model.provider_name, model.provider, request, entry.attempts)
    if form is not None:
        events = rescue.rest_of(events, reply, current.said, form)
    return RunningCall(model, request, entry, reply, events, tool_set.tool_tokens)


def _may_hedge(agent_run: AgentRun, current: Round) -> bool:
    """Return whether a second model is asked if the first one is slow to begin.

    A whole reply says nothing before its end, and a reply that broke off has been late
    already.
    """
    return (
        agent_run.agent.hedge_after_seconds is not None
        and agent_run.stream
        and current.broken_by is None
        and agent_run.fallback_chain.has_next
    )


async def _hedge(
    agent_run: AgentRun, tool_set: ToolSet, current: Round, first: RunningCall
) -> RunningCall:
    """Return the call of the first or the next model, whichever begins first."""
    chain, record = agent_run.fallback_chain, agent_run.record

    def may_go_on(call: RunningCall, error: Exception) -> bool:
        # No model says what another would not; a fallback may refuse what the
        # agent's own model accepts.
        is_final = isinstance(error, ContentFiltered) or (
            call is first and isinstance(error, Invalid)
        )
        if not is_final:
            chain.skip(call.model, error)
        return not is_final

    winner = await model_call.race(
        first,
        lambda: _start_call(agent_run, tool_set, current, chain.next_model, running=2),
        after_seconds=agent_run.agent.hedge_after_seconds or 0.0,
        on_failure=may_go_on,
    )
    chain.switch_to(winner.model)
    # The call that answers is the last one of its round.
    others = [entry for entry in record if entry is not winner.entry]
    record[:] = [*others, winner.entry]
    return winner


def _build_request(
    agent_run: AgentRun,
    tool_set: ToolSet,
    current: Round,
    model: Model,
    form: rescue.Form | None,
    running: int,
) -> ModelRequest:
    sent = current.cut.apply(current.messages)
    messages = message_filters.drop_foreign_reasoning(sent, str(model))
    parameters = model.parameters(current.parameters, agent_run.response_format)
    if form is not None:
        messages = rescue.messages_to_continue(messages, current.said, form)
        parameters = rescue.limits_to_continue(parameters, current.said, form)
    is_optional = tool_set.is_optional_for(agent_run.agent)
    has_tools = not (is_optional and refuses_tools(str(model)))
    current.may_drop_tools = is_optional and has_tools
    return ModelRequest(
        model=model.name,
        messages=messages,
        tools=tool_set.tools if has_tools else (),
        parameters=parameters,
        extra_parameters=accepted_extras(
            model, agent_run.agent, agent_run.extra_parameters
        ),
        extra_body=model.extra_body,
        stream=agent_run.stream,
        is_continuation=form is not None,
        has_fallback=agent_run.fallback_chain.has_others(running),
        user=agent_run.user,
        span=trace_context.new_child(),
    )


def _form(agent_run: AgentRun, current: Round, model: Model) -> rescue.Form | None:
    """Return how a model is asked to continue a reply; None without a part of it."""
    if not current.said:
        return None
    forms = rescue.forms(
        agent_run.agent.rescue, takes_prefill=registry.takes_prefill(model.provider)
    )
    return forms[min(current.refused_forms, len(forms) - 1)]


def _recover(
    agent_run: AgentRun, current: Round, error: Exception, *, has_begun: bool
) -> bool:
    """Prepare a retry after a failure; return whether one is possible."""
    if agent_run.agent.rescue != "off" and (has_begun or current.broken_by):
        return _rescue(agent_run, current, error)
    if current.stream_filter.has_sent and agent_run.is_live:
        return False
    if isinstance(error, RequestRefused) and error.code == CONTEXT_TOO_LONG:
        return _find_room(agent_run, current, error)
    if current.may_drop_tools and note_refusal(str(current.model), error):
        current.stream_filter.restart_round()
        return True
    may_lack_vision = isinstance(error, RequestRefused) and not isinstance(
        error, ContentFiltered
    )
    without_images = (
        message_filters.drop_images(current.messages) if may_lack_vision else None
    )
    if without_images is not None:
        current.messages[:] = without_images
    elif not agent_run.fallback_chain.advance(error):
        return False
    current.stream_filter.restart_round()
    return True


def _find_room(agent_run: AgentRun, current: Round, error: Exception) -> bool:
    """Prepare a retry of a prompt that was too long; return whether one is possible.

    A model with a larger window answers, or the oldest messages are left out.
    """
    chain = agent_run.fallback_chain
    if not (chain.advance_to_larger(error) or chain.advance(error)):
        if agent_run.agent.context_overflow != "trim":
            return False
        if not current.cut.shorten(current.messages, chain.model.context_window):
            return False
        logger.info("the prompt of '%s' was too long, and is cut", agent_run.agent.name)
    current.stream_filter.restart_round()
    return True


def _rescue(agent_run: AgentRun, current: Round, error: Exception) -> bool:
    """Prepare the continuation of a reply that broke off; return whether it may be.

    Its tool calls are requested again. A refusal is not continued: no model says what
    another would not.
    """
    if current.reply.refusal or isinstance(error, ContentFiltered):
        return False
    current.broken_by = current.broken_by or error
    if agent_run.is_live and not agent_run.final_text_only:
        current.said = current.reply.text
    if not current.said:
        current.stream_filter.restart_round()
    current.stream_filter.drop_calls()
    is_refused = isinstance(error, RequestRefused) and current.said
    if is_refused and current.refused_forms < rescue.MAX_FORMS - 1:
        current.refused_forms += 1
        return True
    current.refused_forms = 0
    return agent_run.fallback_chain.advance_after_break(error)
