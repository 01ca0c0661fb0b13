"""Celery beat: runs what is due, `python -m processes.beat` or `manage.py beat`.

One is enough for any number of workers; several share the work.
"""

import os
import signal
from types import FrameType

import django
from celery import Celery
from celery.beat import Service
from django.conf import settings
from django.utils.module_loading import import_string

from config import live
from core.errors import CoulisseError
from processes import namespace_wait
from processes.supervision import parent_watch
from telemetry.log_output import logs

FORCE_EXIT_SECONDS = 5.0
NICENESS = 5


def run() -> None:
    """Run what is due until SIGTERM."""
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    signal.signal(signal.SIGTERM, _exit)
    live.load_at_start()
    namespace_wait.await_namespace("due tasks")
    watcher = live.ConfigWatcher()
    watcher.start()
    os.nice(NICENESS)
    # Celery's own command would import all jobs to send their names.
    scheduler = import_string(settings.CELERY_BEAT_SCHEDULER)
    Service(app, scheduler_cls=scheduler).start()
    watcher.stop()


def _exit(number: int, frame: FrameType | None) -> None:
    # Celery catches it and returns.
    raise SystemExit


def main() -> None:
    parent_watch.watch_command_line_pipe(grace_seconds=FORCE_EXIT_SECONDS)
    logs.capture_python_output()
    django.setup()
    try:
        run()
    except CoulisseError as exc:
        raise SystemExit(str(exc)) from exc


if __name__ == "__main__":
    main()
