"""The tools with which an agent creates background tasks and reads their status.

They act for the user of the turn, and their tasks are charged like the turn. Source:
"Async tasks" of the reference, with the schemas.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from agents.config import AgentConfig
from agents.function_tools import FunctionTool, ToolArguments, json_tool
from config.sections import Config
from core.ids import UserId
from core.text.sanitization import truncate
from core.tools import Tool
from database import database_executor
from tasks import user_tasks
from tasks.config import TASKS
from tasks.schemas import MAX_LISTED, ListedTask
from turns.agent_tasks import task_requests
from turns.agent_tasks.task_requests import TaskRequest
from turns.preparation import routing
from turns.turn import TurnRequest

DISPATCH, STATUS = "dispatch_task", "tasks_status"
DEFAULT_LIMIT = 20
"""Number of tasks that are listed by default."""
MAX_AGENTS_LISTED = 50
"""Maximum agents that a description lists."""
MAX_SUMMARY_PROMPT = 200
"""Maximum characters of a listed prompt."""


class DispatchArguments(ToolArguments):
    agent: str
    prompt: str


class StatusArguments(ToolArguments):
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


def make_tools(
    config: Config, user_id: UserId, request: TurnRequest, agent: AgentConfig
) -> Iterable[Tool]:
    """Return the task tools of an agent, bound to a turn.

    An incognito turn has none, because a task is stored. A request with the
    `tool_choice` of `none` has those only that the agent's YAML names.
    """
    settings = config.get(TASKS)
    if not settings.enabled or request.options.is_incognito:
        return ()
    if agent.task_tools is None and request.parameters.get("tool_choice") == "none":
        return ()
    granted = _granted_tools(agent.task_tools, by_default=settings.tools)
    owner = None if agent.task_scope == "all" else user_id
    handlers = _TaskToolHandlers(config, user_id, request, owner)
    return [tool for tool in _all_tools(handlers) if tool.name in granted]


def _granted_tools(
    setting: bool | tuple[str, ...] | None, *, by_default: bool
) -> tuple[str, ...]:
    if isinstance(setting, tuple):
        return setting
    has_all = by_default if setting is None else setting
    return (DISPATCH, STATUS) if has_all else ()


def _all_tools(handlers: "_TaskToolHandlers") -> Iterable[FunctionTool]:
    yield json_tool(
        "task",
        DISPATCH,
        "Enqueue a fire-and-forget background task. The agent receives your prompt, "
        "and nothing else of this conversation. Returns a task_id at once, never the "
        "result. Use it for long work whose result you do not need now; to get an "
        f"answer, call an agent directly. Agents: {handlers.agent_names()}.",
        DispatchArguments,
        handlers.dispatch,
        parameters=DISPATCH_PARAMETERS,
    )
    yield json_tool(
        "task",
        STATUS,
        "List recent background tasks of all agents, newest first: state, prompt, "
        "times, and the result or error. Long texts are truncated. With 'state', only "
        "tasks in that state.",
        StatusArguments,
        handlers.status,
        parameters=STATUS_PARAMETERS,
    )


@dataclass(frozen=True, slots=True)
class _TaskToolHandlers:
    config: Config
    user_id: UserId
    request: TurnRequest
    owner: UserId | None
    """The user whose tasks are listed; None for all users."""

    def agent_names(self) -> str:
        may_call = self.request.caller.may_call
        names = [name for name in routing.list_names(self.config) if may_call(name)]
        more = (
            [f"and {len(names) - MAX_AGENTS_LISTED} more"]
            if len(names) > MAX_AGENTS_LISTED
            else []
        )
        return ", ".join([*names[:MAX_AGENTS_LISTED], *more])

    async def dispatch(self, arguments: DispatchArguments) -> Any:
        task_request = TaskRequest(
            arguments.agent,
            arguments.prompt,
            f"turn:{self.request.turn_id}",
            generation=self.request.generation + 1,
            # A model wrote the text, so it is not a source of facts about the user.
            learns=False,
            has_own_thread=True,
        )
        task_id, _ = await task_requests.submit(
            self.config, self.request.caller, self.user_id, task_request
        )
        return {"task_id": str(task_id)}

    async def status(self, arguments: StatusArguments) -> Any:
        tasks = await database_executor.run(
            user_tasks.list_tasks,
            self.owner,
            state=arguments.state,
            limit=arguments.limit,
        )
        return {
            "tasks": [
                _summarize(task, has_result=self.owner is not None)
                for task in tasks.data
            ]
        }


def _summarize(task: ListedTask, *, has_result: bool) -> dict[str, Any]:
    """Return what the model receives of a task.

    The replies to other users stay out of the conversation.
    """
    data = task.model_dump(mode="json")
    return {
        "task_id": data["id"],
        "agent": data["agent"],
        "state": data["state"],
        "prompt": truncate(task.prompt, MAX_SUMMARY_PROMPT),
        **{name: data[name] for name in ("created_at", "started_at", "finished_at")},
        **(
            {"result": data["result"]} if has_result and data["state"] == "done" else {}
        ),
        **({"error": truncate(data["error"], MAX_LISTED)} if data["error"] else {}),
    }
