"""Which turns are tried on the other variants of their experiment, and what is left.

Drawn in the transaction that stores a turn.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from core.reply import Reply
from experiments.config import EXPERIMENTS, ExperimentConfig
from judges.runs import judge_queue
from tasks.models import Task
from tasks.queue import lifecycle, worker_notifier
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.lifecycle import TaskSpec
from telemetry.storage import turn_store
from telemetry.types import TurnRecord
from turns.shadow_runs import turn_snapshot
from turns.turn import EndedTurn, Turn

KIND = "shadow"
PRIORITY = -20
"""Below all that somebody waits for, and below judges."""
MAX_SIZE = 4_000_000
"""Characters of a prompt: one with large pictures is not copied for every variant."""

logger = logging.getLogger(__name__)


def enqueue_for_turn(ended: EndedTurn) -> None:
    """Put a turn down to be tried on the variants that did not answer it, if drawn.

    None of one that waits for its client's tools.
    """
    turn = ended.turn
    if not turn.experiment:
        return
    experiment = turn.config.get(EXPERIMENTS).get(turn.experiment)
    if experiment is None or experiment.strategy != "shadow":
        return
    if not judge_queue.is_complete_reply(ended.reply):
        return
    if not judge_queue.draw(experiment.sampling_rate):
        return
    payload = turn_snapshot.take_snapshot(turn).to_json()
    if turn_snapshot.payload_size(payload) > MAX_SIZE:
        logger.info("turn %s is too large to be tried again", turn.request.turn_id)
        return
    if lifecycle.enqueue(build_tasks(turn, experiment, payload)):
        transaction.on_commit(worker_notifier.notify)


def build_tasks(
    turn: Turn, experiment: ExperimentConfig, payload: Mapping[str, Any]
) -> list[TaskSpec]:
    """Return the trial of a turn by each variant that did not answer it."""
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


def store_run(task: ClaimedTask, turn: Turn, reply: Reply, record: TurnRecord) -> None:
    """Record a trial, have it judged, and drop the copy of what was said.

    In the transaction that closes its task.
    """
    turn_store.insert(record, turn.telemetry)
    Task.objects.filter(pk=task.id).update(payload=_payload_without_text(task))
    if not judge_queue.is_complete_reply(reply):
        return
    wanted = judge_queue.draw_tasks(
        turn.agent,
        turn_id=turn.request.turn_id,
        user_id=turn.user_id,
        experiment=turn.experiment,
        origin="shadow",
        material=judge_queue.context_of_turn(turn.prompt, reply),
    )
    if wanted:
        lifecycle.enqueue(wanted)
        transaction.on_commit(worker_notifier.notify)


def store_failure(
    task: ClaimedTask, error: BaseException, turn: Turn, record: TurnRecord
) -> None:
    """Note that a trial failed, and record it, unless its task is no longer ours."""
    with transaction.atomic():
        lifecycle.record_failure(task, error, is_final=True)
        mine = Task.objects.filter(
            pk=task.id, state=Task.State.ERRORED, attempts=task.attempts
        )
        if mine.update(payload=_payload_without_text(task)):
            turn_store.insert(record, turn.telemetry)


def delete_payload(task: ClaimedTask) -> None:
    """Drop the copy of what was said, of a trial that is not to be made."""
    Task.objects.filter(pk=task.id).update(payload=_payload_without_text(task))


def _payload_without_text(task: ClaimedTask) -> dict[str, str]:
    """Return what is kept of a payload: no copy of what was said."""
    return {"experiment": task.payload["experiment"]}
