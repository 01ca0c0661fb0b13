"""The agent loop: it calls the model until the turn is done.

A round is one call of the model. The loop executes calls of the agent's own tools,
hidden from the client, and starts another round. A call of a client's tool ends the
turn.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents import images, reasoning_blocks, tool_execution
from agents.config import AgentConfig
from agents.fallback_chain import FallbackChain, Model
from agents.stream_filter import StreamFilter
from core import token_estimates, token_usage, trace
from core.errors import CoulisseError, recorded_text
from core.events import (
    Event,
    FinishReason,
    HandoffStarted,
    Heartbeat,
    ReasoningBlock,
    TextDelta,
    TurnFinished,
    Usage,
)
from core.messages import Message, ToolCall
from core.reply import Reply
from core.tools import Tool, to_openai_tool
from core.trace import Call
from providers import client
from providers.errors import ContentFiltered, RequestRefused
from providers.model_request import ModelRequest


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
    response_format: Mapping[str, Any] | None = None
    """In OpenAI's format, for providers that enforce it."""
    client_tools: Sequence[dict[str, Any]] = ()
    """OpenAI tool objects; their calls go back to the client."""
    own_tools: Sequence[Tool] = ()
    """The agent's own tools; clients do not see their calls."""
    tool_set: "ToolSet | None" = None
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


@dataclass(slots=True)
class Round:
    """One reply of a model."""

    messages: list[Message]
    """The prompt; without images once a model has refused them."""
    parameters: Mapping[str, Any]
    """The request's parameters."""
    stream_filter: StreamFilter
    reply: Reply = field(default_factory=Reply)
    model: Model | None = None
    """The model that gave the reply."""

    @property
    def message(self) -> Message:
        """The reply as an assistant message, its reasoning marked with the model."""
        return reasoning_blocks.sign(self.reply.message(), str(self.model))


@dataclass(frozen=True)
class ToolSet:
    """The tools that a model may call in one turn, and who executes them."""

    own: Mapping[str, Tool]
    client_names: frozenset[str]
    tools: Sequence[dict[str, Any]]
    parameters: Mapping[str, Any]

    @cached_property
    def tool_tokens(self) -> int:
        """The estimated tokens of the tool definitions, per call of the model."""
        return token_estimates.estimate_json(self.tools)

    def own_calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls that are executed here, including calls of unknown tools."""
        return [call for call in calls if call.name not in self.client_names]

    def parameters_for_round(self, *, is_last: bool) -> Mapping[str, Any]:
        """Return the parameters of a round; the last round forbids tool calls."""
        if is_last and self.tools:
            return {**self.parameters, "tool_choice": "none"}
        return self.parameters


def build_tool_set(
    clients: Sequence[dict[str, Any]], own: Sequence[Tool], asked: Mapping[str, Any]
) -> ToolSet:
    """Select the client's tools and the agent's own tools that the model may call.

    The request's `tool_choice` refers to the client's tools. If it requires a call, the
    agent's tools are left out. If it is `none`, only the agent's tools stay.
    """
    choice = asked.get("tool_choice")
    if choice == "none" and own:
        clients = ()
        asked = {name: asked[name] for name in asked if name != "tool_choice"}
    elif choice not in (None, "auto", "none"):
        own = ()
    return ToolSet(
        own={tool.name: tool for tool in own},
        client_names=frozenset(tool["function"]["name"] for tool in clients),
        tools=[*clients, *map(to_openai_tool, own)],
        parameters=asked,
    )


async def run(task: AgentRun) -> AsyncGenerator[Event]:
    """Yield the agent's events, `TurnFinished` last.

    Text is yielded as it arrives, including text before a tool call, unless
    `final_text_only` is set. After `max_turns` rounds with tools the model is called
    once more without tools. Failures of a tool, and calls of unknown tools, are
    returned to the model as results. Source: "Loop" of the reference's agents.
    """
    offered = task.tool_set or build_tool_set(
        task.client_tools, task.own_tools, task.parameters
    )
    voice = StreamFilter(offered.client_names, says_last_alone=task.final_text_only)
    messages = list(task.messages)
    begun = len(task.record)
    for rounds_left in range(task.agent.max_turns, -1, -1):
        asked = offered.parameters_for_round(is_last=not rounds_left)
        task.fallback_chain.next_round()
        current = Round(messages, asked, voice)
        async with aclosing(_call_model(task, offered, current)) as events:
            async for event in events:
                if voice.passes_unchanged(event):
                    yield event
                else:
                    for heard in voice.filter(event):
                        yield heard
        reply = current.reply
        ours = offered.own_calls(reply.tool_calls)
        if not ours or not rounds_left:
            break
        messages.append(current.message)
        async with aclosing(_execute_tools(task, offered, ours, messages)) as signs:
            async for sign in signs:
                yield sign
        if len(ours) < len(reply.tool_calls):
            break
        voice.next_round()
    _record_client_calls(task, offered, reply)
    if reply.text and task.final_text_only:
        yield TextDelta(reply.text)
    for block in current.message.reasoning:
        yield ReasoningBlock(block)
    yield TurnFinished(
        _finish_reason(reply, offered),
        trace.total_usage(task.record[begun:]),
        _complete_exchange(messages[len(task.messages) :], current.message, offered),
    )


async def _execute_tools(
    task: AgentRun, offered: ToolSet, calls: Sequence[ToolCall], messages: list[Message]
) -> AsyncGenerator[Event]:
    """Run calls and append their results; yield heartbeats meanwhile."""
    async with tool_execution.execute_tools(calls, offered.own, task.record) as answers:
        for agent in answers.handoffs:
            yield HandoffStarted(agent)
        while not await answers.wait():
            yield Heartbeat()
        messages += answers.messages()


def _record_client_calls(task: AgentRun, offered: ToolSet, reply: Reply) -> None:
    for call in reply.tool_calls:
        if call.name in offered.client_names:
            entry = trace.TracedToolCall(
                call.name, "client", call.arguments, id=call.id
            )
            task.record.append(entry)


def _finish_reason(last: Reply, offered: ToolSet) -> FinishReason:
    """Return the finish reason.

    A call in a round that forbids calls is no answer: it counts as `length`.
    """
    called = {call.name for call in last.tool_calls}
    if called & offered.client_names:
        return "tool_calls"
    if called:
        return "length"
    if last.finish_reason == "tool_calls":
        return "stop"  # It reports tool calls, but there are none.
    return last.finish_reason or "stop"


def _complete_exchange(
    said: Sequence[Message], last: Message, offered: ToolSet
) -> tuple[Message, ...]:
    """Return the messages to store when the turn waits for a client's tool."""
    if not said or not any(
        call.name in offered.client_names for call in last.tool_calls
    ):
        return ()
    is_in = any(message.tool_calls == last.tool_calls for message in said)
    return (*said,) if is_in else (*said, last)


async def _call_model(
    task: AgentRun, offered: ToolSet, current: Round
) -> AsyncGenerator[Event]:
    """Call the model, collect its reply and record the call.

    Retries without images in tool results if the model refuses them, and with the next
    model of the fallback chain if this one fails before the client received anything.
    """
    while True:
        model = current.model = task.fallback_chain.model
        messages = reasoning_blocks.drop_foreign(current.messages, str(model))
        call = ModelRequest(
            model=model.name,
            messages=messages,
            tools=offered.tools,
            parameters=model.parameters(current.parameters, task.response_format),
            extra_body=model.extra_body,
            stream=task.stream,
            user=task.user,
        )
        entry = trace.ModelCall(task.agent.name, model.provider_name, model.name)
        task.record.append(entry)
        reply = current.reply = Reply()
        said = client.run(model.provider_name, model.provider, call, entry.attempts)
        try:
            async with aclosing(said) as events:
                async for event in events:
                    reply.add(event)
                    yield event
            entry.end()
            return
        except Exception as exc:
            entry.end(error=recorded_text(exc))
            if isinstance(exc, CoulisseError):
                exc.provider = exc.provider or model.provider_name
            if _recover(task, current, exc):
                continue
            told = task.fallback_chain.final_error(exc)
            if told is exc:
                raise
            raise told from exc
        finally:
            # Cancelled calls count too: the provider bills them, even if only the
            # prompt was processed.
            if reply.has_begun or entry.is_billed:
                entry.usage = _count_usage(call, offered, reply)
            entry.finish_reason = reply.finish_reason or ""


def _count_usage(call: ModelRequest, offered: ToolSet, reply: Reply) -> Usage:
    """Return the usage of a call; estimated if the provider reported none."""
    if reply.usage is not None:
        return reply.usage
    return token_usage.count_usage(
        call.messages,
        reply,
        tool_tokens=offered.tool_tokens,
        response_format=call.parameters.get("response_format"),
    )


def _recover(task: AgentRun, current: Round, error: Exception) -> bool:
    """Prepare a retry after a failure; return whether one is possible."""
    if current.stream_filter.has_sent and task.is_live:
        return False
    is_blind = isinstance(error, RequestRefused)
    is_blind = is_blind and not isinstance(error, ContentFiltered)
    seen = images.drop_images(current.messages) if is_blind else None
    if seen is not None:
        current.messages[:] = seen
    elif not task.fallback_chain.advance(error):
        return False
    current.stream_filter.restart_round()
    return True
