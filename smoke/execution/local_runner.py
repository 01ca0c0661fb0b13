"""Runs smoke tests in this process, independent of workers."""

import uuid
from collections.abc import Callable, Collection

from core.ids import UserId
from judges.runs import judge_queue
from smoke.models import SmokeMessage, SmokeRun
from smoke.models.run_queries import KIND
from tasks.worker import local_worker
from turns.agent_tasks import worker_resources


def run_locally(
    runs: Collection[SmokeRun],
    show: Callable[[SmokeMessage | SmokeRun], None],
    check_interrupt: Callable[[], None],
) -> None:
    """Run conversations in this process until they and their scores are complete.

    `show` receives each new message and each closed run. `check_interrupt` is called
    regularly; an exception from it cancels them.
    """
    open_ids, shown_ids = {run.pk for run in runs}, set[int]()

    def watch() -> bool:
        SmokeRun.objects.close_finished()
        found = _started_runs(open_ids)
        for message in _new_messages(found, shown_ids):
            shown_ids.add(message.pk)
            show(message)
        for run in found:
            if run.finished_at is not None:
                open_ids.remove(run.pk)
                show(run)
        return not open_ids

    local_worker.run_tasks(
        [KIND, judge_queue.KIND],
        watch,
        check_interrupt,
        cancel=SmokeRun.objects.filter(pk__in=[run.pk for run in runs]).cancel,
        users=[UserId(run.user_id) for run in runs],
        resources=[worker_resources.opened],
    )


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
