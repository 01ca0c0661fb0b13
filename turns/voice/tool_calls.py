"""Tool calls of conversations by voice: the browser receives and we run them."""

import asyncio

from agents import tool_execution
from core.messages import ToolCall
from turns.turn import TurnRequest
from turns.voice import recording

MAX_SECONDS = 120.0
"""A user waits in silence for as long."""


async def run(request: TurnRequest, call: ToolCall) -> str:
    """Run one tool of the request's agent; return the output for the model.

    As in other turns a failure is an output, so that the model can react to it; so is
    the name of a tool that the agent does not have. Raises the errors of `prepare`.
    """
    async with recording.open_turn(request) as turn:
        own = {tool.name: tool for tool in turn.tools}
        calls = tool_execution.execute_tools([call], own, turn.record)
        async with calls as execution:
            try:
                async with asyncio.timeout(MAX_SECONDS):
                    while not await execution.wait():
                        pass
            except TimeoutError:
                return f"Error: the tool did not answer within {MAX_SECONDS:g} seconds"
            (message,) = execution.messages()
            return tool_execution.result_text(message.content or "")
