"""Handler of smoke runs: a persona and an agent talk until one of them ends it.

The agent's turns are ordinary, except that they leave nothing in the user's memory and
count towards no limit. Each message is stored at once, so that a run whose worker dies
continues there.
"""

import asyncio
import time
import uuid
from contextlib import aclosing
from functools import partial

from config import live
from core.errors import CoulisseError
from core.ids import TurnId
from core.reply import Reply
from database import database_executor
from database.errors import DatabaseDown
from smoke.errors import EmptyReply
from smoke.execution import dialogue_storage, personas
from smoke.execution.dialogue import Dialogue, Stop, Utterance, agent_messages
from tasks.errors import LeaseLost, describe_error
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome
from turns import flow
from turns.preparation.options import TurnOptions
from turns.turn import TurnRequest

OPTIONS = TurnOptions(is_incognito=True, is_memory_off=True)


async def run(task: ClaimedTask) -> TaskOutcome:
    """Run a conversation to its end; an error fails the run and is raised."""
    run_id = uuid.UUID(task.payload["run"])
    dialogue: Dialogue = await database_executor.run_to_end(
        dialogue_storage.begin_run, run_id, task.attempts
    )
    timeout = asyncio.timeout(dialogue.test.timeout_seconds)
    try:
        async with timeout:
            stop = await _run_dialogue(dialogue)
    except (LeaseLost, DatabaseDown):
        raise
    except Exception as exc:
        reason, error = _classify_failure(dialogue, exc, is_late=timeout.expired())
        await database_executor.run_to_end(
            dialogue_storage.fail_run, dialogue, reason, describe_error(error)
        )
        raise error from exc
    return TaskOutcome(
        f"{dialogue.turns} turns",
        partial(dialogue_storage.end_dialogue, dialogue, stop),
    )


def _classify_failure(
    dialogue: Dialogue, exc: Exception, *, is_late: bool
) -> tuple[Stop, Exception]:
    """Return why a conversation was interrupted, and the text of the error."""
    if is_late:
        limit = f"{dialogue.test.timeout_seconds:g} seconds"
        return "timeout", CoulisseError(f"the conversation took longer than {limit}")
    return ("silence" if isinstance(exc, EmptyReply) else "error"), exc


async def _run_dialogue(dialogue: Dialogue) -> Stop:
    """Let each side speak in turn; return why the conversation ended."""
    while (stop := dialogue.stopped_because) is None:
        if dialogue.next_speaker == "persona":
            await _take_persona_turn(dialogue)
        else:
            await _take_agent_turn(dialogue)
    if stop == "silence":
        last = dialogue.utterances[-1].speaker
        who = "the persona" if last == "persona" else f"agent '{dialogue.target}'"
        raise EmptyReply(f"{who} sent an empty message")
    return stop


async def _take_persona_turn(dialogue: Dialogue) -> None:
    test = dialogue.test
    if not dialogue.utterances and test.initial_message is not None:
        text, call = test.initial_message, None
    else:
        text, call = await personas.next_message(
            live.current(), test.persona, dialogue.utterances, dialogue.user_id
        )
    await database_executor.run_to_end(
        dialogue_storage.store_persona_message, dialogue, text, call
    )
    dialogue.utterances.append(Utterance("persona", text))


async def _take_agent_turn(dialogue: Dialogue) -> None:
    """Run a turn of the agent; its message is stored in the turn's transaction."""
    position = len(dialogue.utterances)
    turn_id = TurnId(uuid.uuid5(dialogue.run_id, f"{dialogue.attempt}:{position}"))
    request = TurnRequest(
        turn_id=turn_id,
        agent=dialogue.target,
        user_id=dialogue.user_id,
        messages=agent_messages(dialogue.utterances),
        options=OPTIONS,
        parameters={},
        origin="smoke",
        on_end=partial(
            dialogue_storage.store_agent_reply, dialogue, turn_id, time.perf_counter()
        ),
    )
    reply = Reply()
    async with aclosing(flow.run(request)) as events:
        async for event in events:
            reply.add(event)
    dialogue.utterances.append(Utterance("assistant", reply.text or reply.refusal))
