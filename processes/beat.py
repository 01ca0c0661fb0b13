"""Celery beat: runs what is due, `python -m processes.beat` or `manage.py beat`.

One is enough for any number of workers; several share the work.
"""

import signal
from types import FrameType

from celery import Celery
from celery.beat import Service
from django.conf import settings
from django.utils.module_loading import import_string

from processes import background_process

FORCE_EXIT_SECONDS = 5.0


def run() -> None:
    """Run what is due until SIGTERM."""
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    signal.signal(signal.SIGTERM, _exit)
    with background_process.prepared("due tasks"):
        # Celery's own command would import all jobs to send their names.
        scheduler = import_string(settings.CELERY_BEAT_SCHEDULER)
        Service(app, scheduler_cls=scheduler).start()


def _exit(number: int, frame: FrameType | None) -> None:
    # Celery catches it and returns.
    raise SystemExit


if __name__ == "__main__":
    background_process.run_as_child(run, grace_seconds=FORCE_EXIT_SECONDS)
