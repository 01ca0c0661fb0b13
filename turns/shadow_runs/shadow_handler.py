"""Handler of shadow runs: a variant answers a turn, and no user receives the reply.

A shadow run changes neither the transcript, nor the user's memory, nor their limits.
"""

import logging
from contextlib import aclosing
from functools import partial

from agents.config import AGENTS, AgentConfig
from config import live
from config.sections import Config
from core.errors import CoulisseError
from core.reply import Reply
from database import database_executor
from memory import memory_settings
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome
from telemetry.config import TELEMETRY
from telemetry.tracing import turn_spans
from turns import flow
from turns.budget.usage_grant import UsageGrant
from turns.lifecycle import completion, turn_record
from turns.preparation import attachments, prompt
from turns.shadow_runs import shadow_queue, turn_snapshot
from turns.shadow_runs.turn_snapshot import TurnSnapshot
from turns.tools.toolbox import Toolbox
from turns.turn import StartTime, Turn

logger = logging.getLogger(__name__)

NOT_CONFIGURED = "the variant is no longer configured"
PAYLOAD_DELETED = "the messages of the turn are deleted"
"""When an operator retries a failed run."""


async def run(task: ClaimedTask) -> TaskOutcome:
    """Run another variant on a turn's messages, and record the result."""
    config = live.current()
    agent = config.get(AGENTS).get(task.agent)
    if agent is None:
        return TaskOutcome(NOT_CONFIGURED, partial(shadow_queue.delete_payload, task))
    if not turn_snapshot.has_messages(task.payload):
        return TaskOutcome(PAYLOAD_DELETED)
    turn = await _prepare(task, config, agent)
    reply = Reply()
    turn_record.register_live(turn)
    try:
        async with aclosing(flow.answer(turn)) as events:
            async for event in events:
                reply.add(event)
    except Exception as exc:
        turn_record.charge_calls(turn)
        record = turn_record.build_record(turn, reply, "error", exc)
        completion.export_spans(turn, reply, record, exc)
        await database_executor.run_to_end(
            shadow_queue.store_failure, task, exc, turn, record
        )
        reason = exc if isinstance(exc, CoulisseError) else type(exc).__name__
        logger.warning(
            "shadow run of turn %s on %s failed: %s", task.turn_id, agent.name, reason
        )
        return TaskOutcome(is_closed=True)
    finally:
        turn_record.unregister_live(turn)
    turn_record.charge_calls(turn)
    record = turn_record.build_record(turn, reply, "ok", None)
    completion.export_spans(turn, reply, record, None)
    return TaskOutcome(
        f"turn {turn.request.turn_id}",
        partial(shadow_queue.store_run, task, turn, reply, record),
    )


async def _prepare(task: ClaimedTask, config: Config, agent: AgentConfig) -> Turn:
    """Return the turn of a variant: the other turn's prompt, its own preamble."""
    started = StartTime()
    span = turn_spans.start(config, is_incognito=False)
    snapshot = TurnSnapshot.from_json(task.payload)
    request = snapshot.to_turn_request(task, task.turn_ids[-1])
    system = prompt.system_messages(
        agent.preamble, request.instructions, request.messages
    )
    box = Toolbox(
        config,
        task.user_id,
        request.options,
        request=request,
        is_thread_known=snapshot.is_thread_known,
        is_shadow_run=True,
    )
    messages = [*system, *prompt.conversation(request.messages)]
    settings, _ = memory_settings.resolve_for_agent(config, agent.name)
    return Turn(
        request=request,
        agent=agent,
        user_id=task.user_id,
        new=(),
        prompt=messages,
        model_messages=await attachments.load_files(
            task.user_id, messages, config, agent
        ),
        memory=settings,
        extraction_request=None,
        telemetry=config.get(TELEMETRY),
        started=started,
        config=config,
        usage_grant=UsageGrant(()),
        tools=await box.open(agent),
        experiment=snapshot.experiment,
        span=span,
    )
