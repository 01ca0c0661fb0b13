"""The tools with which an agent creates background tasks and reads their status.

They act for the user of the turn, and their tasks are charged like the turn. Source:
"Async tasks" of the reference, with the schemas.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import Field

from agents.config import AgentConfig
from config.sections import Config
from core.ids import UserId
from core.tools import Tool
from core.trace import TracedToolCall
from database import database_executor
from tasks.config import TASKS
from tasks.queue import worker_notifier
from tasks.reports import task_queries
from tasks.submission import admission
from turns.agent_tasks import task_requests
from turns.agent_tasks.task_requests import TaskRequest
from turns.preparation import routing
from turns.tools.memory_tools import ToolArguments, parse_arguments
from turns.turn import TurnRequest

DISPATCH, STATUS = "dispatch_task", "tasks_status"
DEFAULT_LIMIT = 20
"""Number of tasks that are listed by default."""
MAX_AGENTS_LISTED = 50
"""Maximum agents that a description lists."""


class DispatchArguments(ToolArguments):
    """The arguments of dispatch_task."""

    agent: str
    prompt: str


class StatusArguments(ToolArguments):
    """The arguments of tasks_status."""

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=100)
    state: Literal["queued", "running", "done", "errored"] | None = None


DISPATCH_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"agent": {"type": "string"}, "prompt": {"type": "string"}},
    "required": ["agent", "prompt"],
}
STATUS_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "state": {"type": "string", "enum": ["queued", "running", "done", "errored"]},
    },
    "required": [],
}


@dataclass(frozen=True, slots=True)
class TaskTool:
    """One of the tools, bound to a turn."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    handler: Callable[[Mapping[str, Any]], Awaitable[Any]]
    kind: Literal["task"] = "task"
    target: str = ""

    async def call(self, arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        return orjson.dumps(await self.handler(arguments)).decode()


def make_tools(
    config: Config, user_id: UserId, request: TurnRequest, agent: AgentConfig
) -> Iterable[Tool]:
    """Return the task tools that the YAML gives an agent, bound to a turn.

    An incognito turn has none, because a task is stored.
    """
    settings = config.get(TASKS)
    if not settings.enabled or request.options.is_incognito:
        return ()
    granted = _granted_tools(agent.task_tools, by_default=settings.tools)
    tools = _TaskToolHandlers(config, user_id, request)
    return [tool for tool in _all_tools(tools) if tool.name in granted]


def _granted_tools(
    setting: bool | tuple[str, ...] | None, *, by_default: bool
) -> tuple[str, ...]:
    if isinstance(setting, tuple):
        return setting
    has_all = by_default if setting is None else setting
    return (DISPATCH, STATUS) if has_all else ()


def _all_tools(tools: "_TaskToolHandlers") -> Iterable[TaskTool]:
    yield TaskTool(
        DISPATCH,
        "Enqueue a fire-and-forget background task. The agent receives your prompt, "
        "and nothing else of this conversation. Returns a task_id at once, never the "
        "result. Use it for long work whose result you do not need now; to get an "
        f"answer, call an agent directly. Agents: {tools.agent_names()}.",
        DISPATCH_PARAMETERS,
        tools.dispatch,
    )
    yield TaskTool(
        STATUS,
        "List recent background tasks of all agents, newest first: state, prompt, "
        "times, and the result or error. Long texts are truncated. With 'state', only "
        "tasks in that state.",
        STATUS_PARAMETERS,
        tools.status,
    )


@dataclass(frozen=True, slots=True)
class _TaskToolHandlers:
    config: Config
    user_id: UserId
    request: TurnRequest

    def agent_names(self) -> str:
        may_call = self.request.caller.may_call
        names = [name for name in routing.list_names(self.config) if may_call(name)]
        more = (
            [f"and {len(names) - MAX_AGENTS_LISTED} more"]
            if len(names) > MAX_AGENTS_LISTED
            else []
        )
        return ", ".join([*names[:MAX_AGENTS_LISTED], *more])

    async def dispatch(self, arguments: Mapping[str, Any]) -> Any:
        parsed = parse_arguments(DispatchArguments, arguments)
        task_request = TaskRequest(
            parsed.agent,
            parsed.prompt,
            f"turn:{self.request.turn_id}",
            generation=self.request.generation + 1,
            # A model wrote the text, so it is not a source of facts about the user.
            learns=False,
            has_own_thread=True,
        )
        spec = task_requests.build_task(
            self.config, self.request.caller, self.user_id, task_request
        )
        task_id, _ = await database_executor.run_to_end(
            admission.admit_task, spec, max_open=self.config.get(TASKS).max_open
        )
        worker_notifier.notify()
        return {"task_id": str(task_id)}

    async def status(self, arguments: Mapping[str, Any]) -> Any:
        parsed = parse_arguments(StatusArguments, arguments)
        tasks = await database_executor.run(
            task_queries.list_for_agent,
            self.user_id,
            state=parsed.state,
            limit=parsed.limit,
        )
        return {"tasks": tasks}
