"""Runs smoke tests in this process, independent of workers."""

import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager

from core.ids import UserId
from judges.runs import judge_queue
from smoke.models import SmokeMessage, SmokeRun
from smoke.models.run_queries import KIND
from tasks.worker import local_worker
from turns.agent_tasks import worker_resources

POLL_SECONDS = 0.1
SWEEP_SECONDS = 2.0
"""Interval of checks for abandoned runs."""


def work_locally(users: Collection[UserId]) -> AbstractContextManager[None]:
    """Run these users' tasks in this process until the block ends."""
    return local_worker.running_tasks(
        [KIND, judge_queue.KIND],
        users=users,
        resources=[worker_resources.opened],
    )


def watch_runs(
    run_ids: Collection[uuid.UUID], check_interrupt: Callable[[], None]
) -> Iterator[SmokeMessage | SmokeRun]:
    """Yield each new message and each closed run, until all are closed.

    `check_interrupt` is called regularly; an exception from it stops the iteration.
    """
    open_ids, shown_ids = set(run_ids), set[int]()
    swept_at = time.monotonic()
    while open_ids:
        check_interrupt()
        if time.monotonic() - swept_at > SWEEP_SECONDS:
            SmokeRun.objects.close_finished()
            swept_at = time.monotonic()
        SmokeRun.objects.close_judged()
        found = _started_runs(open_ids)
        for message in _new_messages(found, shown_ids):
            shown_ids.add(message.pk)
            yield message
        for run in found:
            if run.finished_at is not None:
                open_ids.remove(run.pk)
                yield run
        if open_ids:
            time.sleep(POLL_SECONDS)


def _started_runs(run_ids: Collection[uuid.UUID]) -> list[SmokeRun]:
    found = SmokeRun.objects.filter(pk__in=run_ids).exclude(state=SmokeRun.State.QUEUED)
    return list(found.order_by("repetition"))


def _new_messages(
    found: Collection[SmokeRun], shown_ids: Collection[int]
) -> list[SmokeMessage]:
    """Return the messages that were not shown yet, in order."""
    # Read after the runs: a closed run has no further messages. Ids first, because a
    # message may be long.
    ids = SmokeMessage.objects.filter(run__in=found).values_list("pk", flat=True)
    new = SmokeMessage.objects.filter(pk__in=[pk for pk in ids if pk not in shown_ids])
    return list(new.select_related("run").order_by("run__repetition", "position"))
