"""Execution of the agent's own tools in one round."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from core import trace
from core.errors import CoulisseError, error_type, recorded_text
from core.events import HEARTBEAT_SECONDS
from core.messages import Message, ToolCall
from core.runtime import trace_context
from core.text.sanitization import escape_and_truncate
from core.tools import Tool, ToolResult
from core.trace import Call

MAX_CALLS = 64
"""Calls of one round that are executed; a misbehaving model may request more."""
MAX_CONCURRENT = 16
MAX_DEPTH = 64
"""Nesting levels of a call's arguments; deeper ones do not fit into a message to a
server."""
MAX_RESULT_LENGTH = 32_000
"""Characters of one result that the model receives."""
MAX_ROUND_LENGTH = 128_000
"""Characters of all results of a round."""

logger = logging.getLogger(__name__)


class ToolExecution:
    """Tool calls that run concurrently."""

    def __init__(
        self, calls: Sequence[ToolCall], own: Mapping[str, Tool], record: list[Call]
    ) -> None:
        self._calls = calls
        self._own = own
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._max_length = min(
            MAX_RESULT_LENGTH, MAX_ROUND_LENGTH // max(len(calls), 1)
        )
        self._entries = [self._build_record(call) for call in calls]
        record += self._entries
        self._tasks = [
            asyncio.create_task(self._execute(call, entry, number))
            for number, (call, entry) in enumerate(
                zip(calls, self._entries, strict=True)
            )
        ]

    def _build_record(self, call: ToolCall) -> trace.TracedToolCall:
        tool = self._own.get(call.name)
        return trace.TracedToolCall(
            call.name,
            "unknown" if tool is None else tool.kind,
            call.arguments,
            id=call.id,
            target="" if tool is None else tool.target,
            span=trace_context.new_child(),
        )

    @property
    def handoffs(self) -> list[str]:
        """The subagents that are called."""
        return [entry.target for entry in self._entries if entry.kind == "subagent"]

    async def wait(self) -> bool:
        """Wait for all calls, at most until a heartbeat is due; return whether all are
        done."""
        _, pending = await asyncio.wait(self._tasks, timeout=HEARTBEAT_SECONDS)
        return not pending

    def messages(self) -> list[Message]:
        """Return the results, in the order of the calls."""
        return [
            Message("tool", _message_content(task.result()), tool_call_id=call.id)
            for call, task in zip(self._calls, self._tasks, strict=True)
        ]

    async def stop(self) -> None:
        """Cancel the calls that still run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _execute(
        self, call: ToolCall, entry: trace.TracedToolCall, number: int
    ) -> ToolResult:
        if entry.span is not None:
            # This coroutine is a task with a context of its own.
            trace_context.current.set(entry.span)
        try:
            if number >= MAX_CALLS:
                raise CoulisseError(
                    f"one reply had {len(self._calls)} tool calls, the limit is "
                    f"{MAX_CALLS}: this call was not executed; repeat it if needed"
                )
            async with self._slots:
                result = await self._find_tool(call).call(parse_arguments(call), entry)
        except CoulisseError as exc:
            entry.end(error=recorded_text(exc), error_type=error_type(exc))
            return truncate_result(f"Error: {exc.message}", self._max_length)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return self._record_crash(entry)
        except Exception:
            return self._record_crash(entry)
        entry.end(result=result_text(result))
        return truncate_result(result, self._max_length)

    def _find_tool(self, call: ToolCall) -> Tool:
        try:
            return self._own[call.name]
        except KeyError:
            names = ", ".join(self._own) or "none"
            raise CoulisseError(
                f"there is no tool called '{escape_and_truncate(call.name)}'; "
                f"available tools: {names}"
            ) from None

    def _record_crash(self, entry: trace.TracedToolCall) -> str:
        logger.exception("tool %s failed", entry.name)
        entry.end(error="the tool failed; see the log")
        return "Error: the tool failed; you may call it again"


def _is_cancelled() -> bool:
    """Whether this task is being cancelled, not something within a tool."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


@asynccontextmanager
async def execute_tools(
    calls: Sequence[ToolCall], own: Mapping[str, Tool], record: list[Call]
) -> AsyncGenerator[ToolExecution]:
    """Run calls of the agent's own tools; cancel those that still run at the end.

    Failures of a tool, and calls of unknown tools, are returned to the model as
    results. Each call is recorded when it starts.
    """
    execution = ToolExecution(calls, own, record)
    try:
        yield execution
    finally:
        await execution.stop()


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments; raises `CoulisseError` if they are invalid."""
    try:
        parsed = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError as exc:
        raise CoulisseError(f"the arguments are not valid JSON: {exc}") from exc
    if not isinstance(parsed, dict):
        raise CoulisseError("the arguments must be a JSON object")
    if _exceeds_depth(parsed, MAX_DEPTH):
        raise CoulisseError(f"the arguments are nested more than {MAX_DEPTH} deep")
    return parsed


def _exceeds_depth(value: Any, max_depth: int) -> bool:
    level = [value]
    for _ in range(max_depth + 1):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _children(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _message_content(result: ToolResult) -> str | list[dict[str, Any]]:
    return result if isinstance(result, str) else list(result)


def result_text(result: ToolResult) -> str:
    """Return a result as text; other parts are replaced by their type."""
    if isinstance(result, str):
        return result
    return "\n".join(part.get("text", f"({part['type']})") for part in result)


def truncate_result(result: ToolResult, max_length: int) -> ToolResult:
    """Return a result with at most `max_length` characters of text."""
    if isinstance(result, str):
        return _truncate_text(result, max_length)
    parts = []
    for part in result:
        if "text" in part:
            part = {**part, "text": _truncate_text(part["text"], max_length)}
            max_length = max(0, max_length - len(part["text"]))
        parts.append(part)
    return parts


def _truncate_text(text: str, max_length: int) -> str:
    if len(text) > max_length:
        text = (
            f"{text[:max_length]}\n(truncated: the result has {len(text)} characters)"
        )
    # A lone surrogate, which JSON can express, cannot be sent in a request.
    return text.encode("utf-8", "replace").decode()
