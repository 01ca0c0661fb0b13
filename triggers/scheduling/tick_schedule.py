"""Celery's view of a schedule: whether a tick is due, and when the next one is."""

from datetime import datetime, timedelta

from celery.schedules import BaseSchedule, schedstate

from triggers.scheduling.due_ticks import Times

NEVER = timedelta(days=365)


class TickSchedule(BaseSchedule):
    """Times with seconds, time zones and clock changes, unlike Celery's crontab."""

    def __init__(self, times: Times) -> None:
        super().__init__()
        self.times = times

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TickSchedule) and self.times == other.times

    def __hash__(self) -> int:
        return hash(self.times)

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Return whether a tick passed since then, and the seconds to the next one."""
        is_due = self.remaining_estimate(last_run_at) <= timedelta(0)
        return schedstate(is_due, self.remaining_estimate(self.now()).total_seconds())

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Return the time to the first tick after an instant."""
        tick = next(self.times.after(last_run_at), None)
        return NEVER if tick is None else tick - self.now()
