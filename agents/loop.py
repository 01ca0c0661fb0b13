"""An agent at work: its model is called until it is done.

A round is one call. Calls of the agent's own tools are answered here, unseen by the
client, and another round follows; a call of a client's tool ends the turn.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from agents import toolcalls
from agents.config import AgentConfig
from agents.toolcalls import Screen
from core import usage
from core.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningBlock,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from core.messages import Message
from core.reply import Reply
from core.tools import Tool, definition
from providers import client
from providers.calls import ModelCall
from providers.config import ProviderConfig

ONE_OF = ({"max_tokens", "max_completion_tokens"},)
"""Names of one thing: a request that sets either puts aside the agent's other."""


def parameters(agent: AgentConfig, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent's parameters with the request's in their place."""
    merged = {**agent.parameters, **requested}
    for names in ONE_OF:
        if names & requested.keys():
            for name in names - requested.keys():
                merged.pop(name, None)
    return merged


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked, and with what."""

    agent: AgentConfig
    provider: ProviderConfig
    messages: Sequence[Message]
    parameters: Mapping[str, Any]
    client_tools: Sequence[dict[str, Any]] = ()
    """OpenAI tool objects; their calls go back to the client."""
    own_tools: Sequence[Tool] = ()
    """The agent's own; nobody sees them called."""
    stream: bool = True
    has_format: bool = False
    """Whether the answer must be JSON, of which text before a call is no part."""
    user: str = ""
    """An opaque id of the end user, for the provider."""


def run(task: Task) -> AsyncGenerator[Event]:
    """Yield what the agent says, `Finished` last.

    Its text is yielded as it comes, that before a tool call too, unless it must have a
    format. After `max_turns` rounds with tools it is asked once more, for an answer
    without.
    Source: "Loop" of the reference's agents.
    """
    if not task.own_tools or _demands_a_call(task):
        # Most turns: nothing to look out for, and nothing to pay for it.
        return _call(task, task.messages, task.client_tools, task.parameters)
    return _rounds(task)


def _demands_a_call(task: Task) -> bool:
    """Whether the client wants one of its own tools called, and so no other."""
    return task.parameters.get("tool_choice") not in (None, "auto", "none")


async def _rounds(task: Task) -> AsyncGenerator[Event]:
    own = {tool.name: tool for tool in task.own_tools}
    tools = [*task.client_tools, *map(definition, task.own_tools)]
    messages = list(task.messages)
    parameters = dict(task.parameters)
    spent = Usage()
    for round_number in range(task.agent.max_turns + 1):
        if round_number == task.agent.max_turns:
            parameters["tool_choice"] = "none"
        reply, screen = Reply(), Screen(own)
        async with aclosing(_call(task, messages, tools, parameters)) as events:
            async for event in events:
                reply.add(event)
                if task.has_format and isinstance(event, TextDelta):
                    continue  # Whether it is the answer is known at the end.
                for shown in _shown(event, screen):
                    yield shown
        spent += usage.of(messages, reply)
        ours = [call for call in reply.tool_calls if call.name in own]
        if len(ours) < len(reply.tool_calls) or not ours:
            break
        messages += [reply.message(), *await toolcalls.answer(ours, own)]
        if reply.text and not task.has_format:
            yield TextDelta("\n\n")
    if reply.text and task.has_format:
        yield TextDelta(reply.text)
    for block in reply.message().reasoning:
        yield ReasoningBlock(block)
    yield Finished(_reason(reply, own), spent)


def _reason(last: Reply, own: Mapping[str, Tool]) -> FinishReason:
    """Return why it ended: a model that calls when told not to has not answered."""
    called = {call.name for call in last.tool_calls}
    if called and called <= own.keys():
        return "length"
    return last.finish_reason or "stop"


def _shown(event: Event, screen: Screen) -> Sequence[Event]:
    """Return what of an event the client may see before the last round is over.

    Signed thinking belongs to the calls of its round, so only that of the last is kept.
    """
    if isinstance(event, ToolCallDelta):
        return screen.pass_on(event)
    return () if isinstance(event, Finished | ReasoningBlock) else (event,)


def _call(
    task: Task,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    parameters: Mapping[str, Any],
) -> AsyncGenerator[Event]:
    call = ModelCall(
        model=task.agent.model,
        messages=messages,
        tools=tools,
        parameters=parameters,
        extra_body=task.agent.extra_body,
        stream=task.stream,
        user=task.user,
    )
    return client.run(task.agent.provider, task.provider, call)
