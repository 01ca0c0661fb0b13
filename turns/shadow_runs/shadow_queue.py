"""Selects turns for shadow runs, and stores the results.

The selection happens in the transaction that stores a turn.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from core.reply import Reply
from experiments.config import EXPERIMENTS, ExperimentConfig
from judges.runs import judge_queue
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from telemetry.storage import turn_store
from telemetry.types import TurnRecord
from turns.shadow_runs import turn_snapshot
from turns.turn import EndedTurn, Turn

KIND = "shadow"
PRIORITY = -20
"""Lower than judges and all tasks that users wait for."""
MAX_PAYLOAD_SIZE = 4_000_000
"""Maximum characters of a prompt, so that large images are not copied per variant."""

logger = logging.getLogger(__name__)


def enqueue_for_turn(ended: EndedTurn) -> None:
    """Enqueue shadow runs on the variants that did not answer a turn, if sampled.

    Turns that wait for the client's tools are skipped.
    """
    turn = ended.turn
    if not turn.experiment:
        return
    experiment = turn.config.get(EXPERIMENTS).get(turn.experiment)
    if experiment is None or experiment.strategy != "shadow":
        return
    if not judge_queue.is_complete_reply(ended.reply):
        return
    if not judge_queue.is_sampled(experiment.sampling_rate):
        return
    payload = turn_snapshot.take_snapshot(turn).to_json()
    if turn_snapshot.payload_size(payload) > MAX_PAYLOAD_SIZE:
        logger.info("turn %s is too large for a shadow run", turn.request.turn_id)
        return
    Task.objects.enqueue(build_tasks(turn, experiment, payload))


def build_tasks(
    turn: Turn, experiment: ExperimentConfig, payload: Mapping[str, Any]
) -> list[TaskSpec]:
    """Return one shadow run task for each variant that did not answer the turn."""
    return [
        TaskSpec(
            KIND,
            turn.user_id,
            name,
            payload=payload,
            origin=f"experiment:{experiment.name}",
            turn_id=turn.request.turn_id,
            key=f"shadow:{turn.request.turn_id}:{name}",
            priority=PRIORITY,
        )
        for name in experiment.agents
        if name != turn.agent.name
    ]


def store_run(task: Task, turn: Turn, reply: Reply, record: TurnRecord) -> None:
    """Record a shadow run, enqueue its judging, and delete the copied messages.

    Runs in the transaction that completes its task.
    """
    turn_store.insert(record, turn.telemetry)
    Task.objects.filter(pk=task.id).update(payload=_payload_without_text(task))
    if not judge_queue.is_complete_reply(reply):
        return
    specs = judge_queue.sample_tasks(
        turn.agent,
        turn_id=turn.request.turn_id,
        user_id=turn.user_id,
        experiment=turn.experiment,
        origin="shadow",
        context=judge_queue.context_of_turn(turn.prompt, reply),
    )
    Task.objects.enqueue(specs)


def store_failure(
    task: Task, error: BaseException, turn: Turn, record: TurnRecord
) -> None:
    """Record that a shadow run failed, unless its task was reassigned."""
    with transaction.atomic():
        task.fail(error, is_final=True)
        failed = Task.objects.filter(
            pk=task.id, state=Task.State.ERRORED, attempts=task.attempts
        )
        if failed.update(payload=_payload_without_text(task)):
            turn_store.insert(record, turn.telemetry)


def delete_payload(task: Task) -> None:
    """Delete the copied messages of a shadow run that will not run."""
    Task.objects.filter(pk=task.id).update(payload=_payload_without_text(task))


def _payload_without_text(task: Task) -> dict[str, str]:
    return {"experiment": task.payload["experiment"]}
