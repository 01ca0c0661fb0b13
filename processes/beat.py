"""Celery beat: sends periodic jobs, `python -m processes.beat` or `manage.py beat`.

One is enough for any number of workers. The time of each job's last run is stored in
`.coulisse/beat-schedule`, so a restart neither skips nor repeats one.
"""

import logging.config
import os
import signal
from types import FrameType

from celery import Celery
from celery.beat import PersistentScheduler, ScheduleEntry, SchedulingError, Service
from django.conf import settings
from django.utils.module_loading import import_string
from kombu import Producer

from processes.supervision import parent_watch
from telemetry.log_output import logs

FORCE_EXIT_SECONDS = 5.0
NICENESS = 5

logger = logging.getLogger(__name__)


class BeatScheduler(PersistentScheduler):
    """Celery's scheduler; logs an unavailable broker once, in one line."""

    _is_broker_down = False

    def apply_entry(
        self, entry: ScheduleEntry, producer: Producer | None = None
    ) -> None:
        """Send a due job; if the broker is unavailable, the next round sends it."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as exc:
            if not self._is_broker_down:
                logger.warning("%s; due jobs wait for the broker", exc)
            self._is_broker_down = True
        else:
            self._is_broker_down = False


def run() -> None:
    """Send due jobs until SIGTERM."""
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    os.nice(NICENESS)
    signal.signal(signal.SIGTERM, _exit)
    # Celery's own command would import all jobs, and numpy with them, to send names.
    Service(app, scheduler_cls=BeatScheduler).start()


def _exit(number: int, frame: FrameType | None) -> None:
    # Celery catches it, writes the schedule and returns.
    raise SystemExit


def main() -> None:
    parent_watch.watch_command_line_pipe(grace_seconds=FORCE_EXIT_SECONDS)
    logs.capture_python_output()
    logging.config.dictConfig(settings.LOGGING)
    run()


if __name__ == "__main__":
    main()
