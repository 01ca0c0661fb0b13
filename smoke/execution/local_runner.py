"""Runs smoke tests in this process, independent of workers."""

import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from core.ids import UserId
from smoke.evaluation import verdicts
from smoke.execution import run_lifecycle
from smoke.models import SmokeMessage, SmokeRun
from tasks.queue import worker_notifier
from tasks.worker.service import WorkerService
from turns.agent_tasks import worker_resources

POLL_SECONDS = 0.1
SWEEP_SECONDS = 2.0
"""Interval of checks for abandoned runs."""


@contextmanager
def work_locally(users: Collection[UserId]) -> Iterator[None]:
    """Run these users' tasks in this process until the block ends."""
    service = WorkerService(users=users, resources=[worker_resources.opened])
    worker_notifier.use_notify(service.check_queue)
    try:
        service.start()
        yield
    finally:
        service.stop()


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
            run_lifecycle.close_finished_runs()
            swept_at = time.monotonic()
        verdicts.close_judged_runs()
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
