"""Celery beat: runs what is due, `python -m processes.beat` or `coulisse beat`.

One is enough for any number of workers; several share the work.
"""

import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celery import Celery
from celery.beat import Scheduler
from django.conf import settings
from django.utils.module_loading import import_string

from processes import process_reports, process_startup
from telemetry.metrics import recording

FORCE_EXIT_SECONDS = 5.0


def run() -> None:
    """Run what is due until SIGTERM."""
    with process_startup.prepared("due tasks"):
        # Celery's own command would import all jobs to send their names.
        app: Celery = import_string(settings.COULISSE_CELERY_APP)
        scheduler = import_string(settings.CELERY_BEAT_SCHEDULER)(app)
        # By their names, because models load only after Django is set up.
        send = import_string("database.heartbeats.beat_if_due")
        end = import_string("database.heartbeats.end")
        report = process_reports.report_of("beat")

        def after_tick() -> None:
            recording.update("beat")
            send(report)

        run_scheduler(scheduler, after_tick=after_tick)
        end()


def run_scheduler(
    scheduler: Scheduler, *, after_tick: Callable[[], None] = lambda: None
) -> None:
    """Run what is due until SIGTERM or SIGINT; a tick that has begun ends first.

    Celery's own loop ends by an exception at any line. That could leave a lock of the
    log behind, for which the other threads would wait at the end.
    """
    with _wait_for_signals() as is_stopped:
        try:
            while not is_stopped(max(scheduler.tick(), 0.0)):
                after_tick()
        finally:
            scheduler.close()


@contextmanager
def _wait_for_signals() -> Iterator[Callable[[float], bool]]:
    """Provide a function that waits, and returns whether a signal came."""
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    before = signal.set_wakeup_fd(sending.fileno())
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield lambda seconds: bool(select.select([receiving], (), (), seconds)[0])
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        receiving.close()
        sending.close()


if __name__ == "__main__":
    process_startup.run_as_child(run, grace_seconds=FORCE_EXIT_SECONDS)
