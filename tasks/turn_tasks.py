"""Tasks that are turns: an agent is told something, and its reply is the result."""

import uuid
from contextlib import aclosing
from functools import partial

from core.ids import TurnId
from core.messages import Message
from tasks import charging, closing
from tasks.kinds import Ending, Kind
from tasks.work import Work
from turns import flow, lane, options
from turns.turn import TurnRequest

NAME = "agent"


async def run(task: Work) -> Ending:
    """Take a turn of a task's agent, as a request would, and close the task with it."""
    turn_id = TurnId(uuid.uuid5(task.id, str(task.attempts)))

    request = TurnRequest(
        turn_id=turn_id,
        agent=task.agent,
        messages=[Message("user", task.prompt)],
        options=options.read(task.payload.get("metadata", {})),
        parameters={},
        caller=await lane.run(charging.caller_of, task.token_id),
        request_id=task.request_id,
        user=str(task.user_id),
        origin="task",
        on_end=partial(closing.by_reply, task, turn_id),
    )
    async with aclosing(flow.run(request)) as events:
        async for _ in events:
            pass
    return Ending(is_closed=True)


KIND = Kind(NAME, run, is_listed=True)
