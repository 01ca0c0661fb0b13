"""Handler of agent tasks: the prompt goes to an agent, and its reply is the result."""

from contextlib import aclosing
from functools import partial

from access.users.caller import ANONYMOUS
from core.messages import Message
from database import database_executor
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome
from turns import flow
from turns.agent_tasks import storage, turn_payload
from turns.preparation import options
from turns.turn import TurnRequest


async def run(task: ClaimedTask) -> TaskOutcome:
    """Run one turn of the task's agent, and complete the task in its transaction."""
    turn_id = task.turn_ids[-1]
    request = TurnRequest(
        turn_id=turn_id,
        agent=task.agent,
        user_id=task.user_id,
        messages=[Message("user", task.prompt)],
        options=options.read_options(task.payload.get("metadata", {})),
        parameters={},
        caller=ANONYMOUS
        if task.token_id is None
        else await database_executor.run(storage.load_caller, task.token_id),
        request_id=task.request_id,
        stream=True,  # Streaming keeps the partial reply if the turn is cancelled.
        origin="task",
        on_end=partial(storage.close_with_reply, task, turn_id),
        on_interruption=partial(storage.check_lease, task),
        learns=task.payload.get("learns", True),
        generation=task.payload.get("generation", 0),
    )
    request = turn_payload.apply(task.payload, request)
    async with aclosing(flow.run(request)) as events:
        async for _ in events:
            pass
    return TaskOutcome(is_closed=True)
