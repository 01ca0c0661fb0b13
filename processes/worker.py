"""The worker: runs background jobs, `python -m processes.worker` or `coulisse worker`.

It receives messages from the broker and runs each job on one of its threads. It waits
while the broker is unavailable, also at its start.
"""

import gc
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from celery.apps import worker as celery_worker
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from django.conf import settings
from django.utils.module_loading import import_string

from config import live
from core.runtime import process_stop
from processes import process_startup
from processes.server import stop_limits
from tasks.config import TASKS

FORCE_EXIT_SECONDS = 9.5

logger = logging.getLogger(__name__)


class Worker(celery_worker.Worker):
    """Celery's worker; prints nothing outside the log when it stops."""

    def install_platform_tweaks(self, worker: Any) -> None:
        super().install_platform_tweaks(worker)
        # Missing in the type stubs of Celery.
        install: Callable[..., None] = vars(celery_worker)[
            "install_worker_term_handler"
        ]
        install(worker, verbose=False)


def run(*, concurrency: int = 0, **options: Any) -> int:
    """Run jobs until SIGTERM, let running ones finish, and return the exit code.

    `options` are those of Celery's worker: `queues`, `hostname`, `task_events`. With
    `concurrency`, so many tasks of each group run at a time, whatever the YAML says.
    """
    settings.COULISSE_WORKER_CONCURRENCY = concurrency
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    # As root, Celery warns of pickle, which we do not accept; without its broker, it
    # warns of a future default of a setting that we set.
    for category in (SecurityWarning, CPendingDeprecationWarning):
        warnings.simplefilter("ignore", category)
    signals.worker_shutting_down.connect(limit_drain)
    with process_startup.prepared("jobs"):
        worker = Worker(
            app=app,
            quiet=True,
            # Workers need not know each other: the database coordinates them.
            without_gossip=True,
            without_mingle=True,
            **options,
        )
        worker.start()
    return int(worker.exitcode or 0)


def limit_drain(**_: Any) -> None:
    """Exit the process when a job takes too long to finish."""
    # Threads cannot be interrupted, so Celery would wait forever.
    seconds = process_stop.limit(live.current().get(TASKS).drain_seconds)
    seconds += stop_limits.CLEANUP_SECONDS
    timer = threading.Timer(seconds, _force_exit, (seconds,))
    timer.daemon = True
    timer.start()


def _force_exit(seconds: float) -> None:
    logger.warning("a job did not finish within %g s; exiting", seconds)
    logging.shutdown()
    os._exit(0)


def main() -> None:
    try:
        process_startup.run_as_child(
            lambda: sys.exit(run()), grace_seconds=FORCE_EXIT_SECONDS
        )
    finally:
        gc.freeze()  # As in `manage.py`: a last collection would take half a second.


if __name__ == "__main__":
    main()
