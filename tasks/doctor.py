"""The check of the queue by `coulisse doctor`."""

from collections.abc import Iterator
from datetime import timedelta

from django.core import checks
from django.db.models import Count, Min

from config.sections import Config
from core.runtime import shared_clock
from tasks.config import TASKS
from tasks.models import Task
from tasks.models.queryset import IS_QUEUED

LATE = timedelta(minutes=5)
VERY_LATE = timedelta(hours=1)
DAY = timedelta(days=1)


def check_queue(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Check how long due tasks wait, and whether tasks failed for good."""
    now = shared_clock.now()
    due = Task.objects.filter(IS_QUEUED, due_at__lte=now)
    found = due.aggregate(count=Count("pk"), oldest=Min("due_at"))
    count = found["count"]
    age = now - found["oldest"] if count else timedelta()
    minutes = int(age.total_seconds() // 60)
    text = (
        f"{_tasks(count)} due, the oldest for {minutes} min" if count else "no task due"
    )
    if config is not None and not config.get(TASKS).enabled:
        yield checks.Info(f"{text}; tasks.enabled is false, so they wait")
    elif age < LATE:
        yield checks.Info(text)
    else:
        level = checks.Error if age >= VERY_LATE else checks.Warning
        yield level(
            f"{text}: the workers do not keep up, or do not run",
            hint="see the check of the workers; raise tasks.workers, or start more "
            "workers with `coulisse worker`",
        )
    lost = Task.objects.running().filter(due_at__lt=now - LATE).count()
    if lost:
        yield checks.Warning(
            f"{_tasks(lost)} of workers that died wait to be recovered",
            hint="beat recovers them; see its check",
        )
    errored = Task.objects.errored().filter(finished_at__gte=now - DAY).count()
    if errored:
        yield checks.Warning(
            f"{_tasks(errored)} failed for good in the last 24 hours",
            hint="`coulisse tasks counts` shows the errors, `coulisse tasks retry` "
            "requeues them",
        )


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
