"""Beat's scheduler with a clock that the test sets."""

from datetime import datetime, timedelta

from coulisse_site.celery import app
from tests.triggers.trigger_yaml import NOON
from triggers.scheduling.beat_scheduler import BeatScheduler


class ManualBeat:
    """A beat that runs what is due when the test says so; all beats share the clock."""

    now = NOON

    def __init__(self) -> None:
        self.scheduler: BeatScheduler | None = None

    def check(self, seconds: float = 0, *, since: datetime = NOON) -> None:
        """Set the clock, and run what is due; the first check starts the beat."""
        ManualBeat.now = since + timedelta(seconds=seconds)
        if self.scheduler is None:
            self.scheduler = BeatScheduler(app=app)
        while self.scheduler.tick() <= 0:
            pass
