"""Which turns are tried on the other variants of their experiment, and what is left.

Drawn in the transaction that stores a turn.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from core.reply import Reply
from experiments.config import EXPERIMENTS, ExperimentConfig
from tasks import judging, queue, shadow_payload, wake
from tasks.models import Task
from tasks.queue import Draft
from tasks.work import Work
from telemetry import records
from telemetry.known import Record
from turns.afterwards import Ended
from turns.turn import Turn

KIND = "shadow"
PRIORITY = -20
"""Below all that somebody waits for, and below judges."""
MAX_SIZE = 4_000_000
"""Characters of a prompt: one with large pictures is not copied for every variant."""

logger = logging.getLogger(__name__)


def due(ended: Ended) -> None:
    """Put a turn down to be tried on the variants that did not answer it, if drawn.

    None of an incognito turn, and of one that waits for its client's tools.
    """
    turn = ended.turn
    if not turn.experiment or turn.request.options.is_incognito:
        return
    experiment = turn.config.get(EXPERIMENTS).get(turn.experiment)
    if experiment is None or experiment.strategy != "shadow":
        return
    if not judging.is_whole(ended.reply):
        return
    if not judging.is_drawn(experiment.sampling_rate):
        return
    payload = shadow_payload.of(turn).to_json()
    if shadow_payload.size(payload) > MAX_SIZE:
        logger.info("turn %s is too large to be tried again", turn.request.turn_id)
        return
    if queue.add(drafts(turn, experiment, payload)):
        transaction.on_commit(wake.soon)


def drafts(
    turn: Turn, experiment: ExperimentConfig, payload: Mapping[str, Any]
) -> list[Draft]:
    """Return the trial of a turn by each variant that did not answer it."""
    return [
        Draft(
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


def keep(task: Work, turn: Turn, reply: Reply, record: Record) -> None:
    """Record a trial, have it judged, and drop the copy of what was said.

    In the transaction that closes its task.
    """
    records.insert(record, turn.telemetry)
    Task.objects.filter(pk=task.id).update(payload=_rest(task))
    if not judging.is_whole(reply):
        return
    wanted = judging.drafts(
        turn.agent,
        turn_id=turn.request.turn_id,
        user_id=turn.user_id,
        experiment=turn.experiment,
        origin="shadow",
        material=judging.of_turn(turn, reply),
    )
    if wanted:
        queue.add(wanted)
        transaction.on_commit(wake.soon)


def failed(task: Work, error: BaseException, turn: Turn, record: Record) -> None:
    """Note that a trial failed, and record it, unless its task is no longer ours."""
    with transaction.atomic():
        queue.failed(task, error, is_final=True)
        mine = Task.objects.filter(
            pk=task.id, state=Task.State.ERRORED, attempts=task.attempts
        )
        if mine.update(payload=_rest(task)):
            records.insert(record, turn.telemetry)


def forget(task: Work) -> None:
    """Drop the copy of what was said, of a trial that is not to be made."""
    Task.objects.filter(pk=task.id).update(payload=_rest(task))


def _rest(task: Work) -> dict[str, str]:
    """Return what is kept of a payload: no copy of what was said."""
    return {"experiment": task.payload["experiment"]}
