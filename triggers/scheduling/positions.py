"""The time up to which the ticks of a periodic task are processed: its `last_run_at`.

Any number of beats may run: the first one to move the position runs the ticks.
"""

from contextlib import suppress
from datetime import datetime

from django.db.models import F
from django_celery_beat.models import PeriodicTask


def move(row: PeriodicTask, until: datetime, *, runs: int = 0) -> bool:
    """Move the position if no other beat has; return whether it was moved."""
    unmoved = PeriodicTask.objects.filter(
        pk=row.pk, enabled=True, last_run_at=row.last_run_at
    )
    if unmoved.update(last_run_at=until, total_run_count=F("total_run_count") + runs):
        row.last_run_at = until
        return True
    with suppress(row.DoesNotExist):  # It was deleted; the schedule is read again.
        row.refresh_from_db(fields=["last_run_at"])
    return False
