"""Tool calls of conversations by voice: the browser receives and we run them."""

import asyncio
from dataclasses import replace
from functools import partial

from agents import tool_execution
from config import live
from core.messages import ToolCall
from database import database_executor
from turns.preparation import routing
from turns.turn import TurnRequest
from turns.voice import call_receipts, recording
from turns.voice.call_receipts import MAX_SECONDS, Call

POLL_SECONDS = 0.25
"""Between looks for the output of a call that another request runs."""


async def run(request: TurnRequest, tool_call: ToolCall, key: str) -> str:
    """Run one tool of the request's agent; return the output for the model.

    A call with the key of an earlier one returns the output of that, and waits for it;
    incognito calls leave nothing to compare. As in other turns a failure is an output,
    so that the model can react to it; so is the name of a tool that the agent does not
    have. Raises the errors of `prepare`.
    """
    call = Call(request.user_id, key)
    if request.options.is_incognito:
        return await _run(request, tool_call, call)
    routing.check_name(live.current(), request.agent, allowed=request.caller.agents)
    while True:
        is_new, output = await database_executor.run_to_end(call_receipts.begin, call)
        if is_new:
            return await _run_once(request, tool_call, call)
        if output is not None:
            return output
        await asyncio.sleep(POLL_SECONDS)


async def _run_once(request: TurnRequest, tool_call: ToolCall, call: Call) -> str:
    """Run a call; its output is stored in the transaction that stores the turn."""
    finish = partial(call_receipts.finish, call)
    recorded = replace(request, on_end=finish, on_interruption=finish)
    try:
        return await _run(recorded, tool_call, call)
    except BaseException:
        if not call.has_begun:
            await database_executor.run_to_end(call_receipts.release, call)
        raise


async def _run(request: TurnRequest, tool_call: ToolCall, call: Call) -> str:
    async with recording.open_turn(request) as turn:
        call.has_begun = True
        own = {tool.name: tool for tool in turn.tools}
        calls = tool_execution.execute_tools([tool_call], own, turn.record)
        async with calls as execution:
            call.output = await _wait(execution)
            return call.output


async def _wait(execution: tool_execution.ToolExecution) -> str:
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while not await execution.wait():
                pass
    except TimeoutError:
        return f"Error: the tool did not answer within {MAX_SECONDS:g} seconds"
    (message,) = execution.messages()
    return tool_execution.result_text(message.content or "")
