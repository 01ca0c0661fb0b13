"""Celery tasks of smoke tests."""

import logging
from datetime import datetime, timedelta

from celery import shared_task

from config import live
from core.runtime import shared_clock
from smoke.config import SMOKE_TESTS
from smoke.models import SmokeRun
from tasks.config import TASKS

SCHEDULE_GRACE = timedelta(seconds=120)
"""Maximum age of a schedule's tick; schedules are checked every half minute."""

logger = logging.getLogger(__name__)


@shared_task(name="smoke.tasks.close_and_launch", ignore_result=True)
def close_and_launch() -> None:
    """Close finished runs, and launch due tests."""
    SmokeRun.objects.close_finished()
    launch_due()


def launch_due(*, now: datetime | None = None) -> list[SmokeRun]:
    """Launch the tests whose schedules ticked recently, once per tick; return the runs.

    Older ticks are skipped; so are all while no tasks run, because they would
    accumulate.
    """
    now = now or shared_clock.now()
    config = live.current()
    if not config.get(TASKS).enabled:
        return []
    launched = []
    for test in config.get(SMOKE_TESTS).values():
        tick = None if test.times is None else next(test.times.before(now), None)
        if tick is not None and now - tick < SCHEDULE_GRACE:
            once = f"{tick:%Y-%m-%dT%H:%M:%SZ}"
            runs = SmokeRun.objects.launch(test, origin="schedule", once=once)
            if runs:
                message = "smoke test %r launched by its schedule: %d conversations"
                logger.info(message, test.name, len(runs))
            launched += runs
    return launched
