"""Validates and builds agent tasks.

All sources of tasks (clients, agents and triggers) use this module.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from access.users.caller import Caller
from config.sections import Config
from core.ids import UserId
from database import database_executor
from tasks.config import MAX_RETRIES, TASKS
from tasks.errors import TaskInvalid, TasksDisabled
from tasks.queue.task_spec import TaskSpec
from tasks.submission import admission
from turns.agent_tasks import turn_payload
from turns.preparation import options, routing

KIND = "agent"
MAX_PROMPT_LENGTH = 200_000
"""Characters."""
MAX_GENERATION = 8
"""Maximum length of a chain of tasks in which each one created the next. Agents that
create tasks for each other would otherwise never stop.
"""
MAX_PRIORITY = 100
MAX_DELAY_SECONDS = 366 * 24 * 3_600


@dataclass(frozen=True, slots=True)
class TaskRequest:
    agent: str
    prompt: str
    origin: str
    """The source: `api`, `turn:ID`, `trigger:NAME`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Same as the metadata of a chat request."""
    priority: int = 0
    retries: int | None = None
    """None uses the value in the YAML."""
    delay_seconds: float = 0.0
    generation: int = 1
    """Length of the chain of tasks that led to this one, this one included."""
    learns: bool = True
    """Whether facts are extracted from the prompt as from the user's own words."""
    has_own_thread: bool = False
    """Whether it runs in a thread of its own, `task-ID`, apart from the user's
    conversations.
    """
    key: str | None = None
    """Idempotency key: a task with this key runs only once."""
    turn: str | None = None
    """The whole request (`turn_payload.to_payload`), of which the prompt is only the
    user's text."""


async def submit(
    config: Config,
    caller: Caller,
    user_id: UserId,
    request: TaskRequest,
    *,
    request_digest: str = "",
) -> tuple[uuid.UUID, bool]:
    """Enqueue a task; return its id, and whether it is new.

    Raises as `build_task` and `admission.admit_task` do.
    """
    return await database_executor.run_to_end(
        admission.admit_task,
        build_task(config, caller, user_id, request),
        max_open=config.get(TASKS).max_open,
        request_digest=request_digest,
    )


def build_task(
    config: Config, caller: Caller, user_id: UserId, request: TaskRequest
) -> TaskSpec:
    """Return the task for the queue.

    Raises `TasksDisabled`, `AgentUnknown`, and `TaskInvalid` or another `Invalid` if
    the request could not become a turn.
    """
    settings = config.get(TASKS)
    if not settings.enabled:
        raise TasksDisabled
    check_request(config, caller, request)
    retries = settings.retries if request.retries is None else request.retries
    task_id = uuid.uuid4()
    thread = {"thread_id": f"task-{task_id}"} if request.has_own_thread else {}
    return TaskSpec(
        KIND,
        user_id,
        request.agent,
        request.prompt,
        payload={
            "metadata": {**request.metadata, **thread},
            "generation": request.generation,
            "learns": request.learns,
            **({} if request.turn is None else {turn_payload.KEY: request.turn}),
        },
        origin=request.origin,
        token_id=caller.token_id,
        key=request.key,
        priority=request.priority,
        max_failures=retries + 1,
        delay_seconds=request.delay_seconds,
        id=task_id,
    )


def check_request(config: Config, caller: Caller, request: TaskRequest) -> None:
    """Raise errors that would end the turn at once or make its record unstorable."""
    routing.check_name(config, request.agent, allowed=caller.agents, param="agent")
    if request.turn is None:
        _check_prompt(request.prompt)
    for name, value in request.metadata.items():
        if "\0" in name or "\0" in value:
            raise TaskInvalid(
                "metadata must not contain NUL characters", param="metadata"
            )
    if options.read_options(request.metadata).is_incognito:
        raise TaskInvalid(
            "a task cannot be incognito, because its prompt and result are stored: "
            "set 'memory' to 'off', or leave it out",
            param="metadata.memory",
        )
    if request.generation > MAX_GENERATION:
        raise TaskInvalid(
            f"at most {MAX_GENERATION} tasks may create each other in a chain: do the "
            "work yourself, or report that it is not done"
        )
    if request.retries is not None and not 0 <= request.retries <= MAX_RETRIES:
        raise TaskInvalid(f"retries must be 0 to {MAX_RETRIES}", param="retries")


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise TaskInvalid(
            "prompt is empty: describe what the agent should do", param="prompt"
        )
    if "\0" in prompt:
        raise TaskInvalid("prompt must not contain NUL characters", param="prompt")
    if len(prompt) > MAX_PROMPT_LENGTH:
        raise TaskInvalid(
            f"prompt is {len(prompt)} characters long, but the limit is "
            f"{MAX_PROMPT_LENGTH}",
            param="prompt",
        )
