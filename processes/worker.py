"""The worker: runs background jobs, `python -m processes.worker` or `manage.py worker`.

It takes messages off the broker and runs each job on one of its threads. It waits for
the broker at its start and whenever that is gone.
"""

import gc
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import django
from celery import Celery, signals
from celery.apps import worker as celery_worker
from celery.exceptions import SecurityWarning
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.utils.module_loading import import_string

from config import live
from core.errors import CoulisseError
from processes.supervision import parent_watch
from telemetry.log_output import logs

DRAIN_SECONDS = 8
"""How long running jobs may take to finish after SIGTERM."""
FORCE_EXIT_SECONDS = 9.5
RETRY_SECONDS = 2.0
NICENESS = 5
"""Replies come first: a worker gets a third of what a busy web process gets."""

logger = logging.getLogger(__name__)


class Worker(celery_worker.Worker):
    """Celery's, which prints nothing beside the log when it is told to end."""

    def install_platform_tweaks(self, worker: Any) -> None:
        super().install_platform_tweaks(worker)
        # What is known of Celery's types lacks it.
        install: Callable[..., None] = vars(celery_worker)[
            "install_worker_term_handler"
        ]
        install(worker, verbose=False)


def run() -> int:
    """Run jobs until SIGTERM, let running ones finish, and return the exit code."""
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    # As root it advises against pickle, which we do not accept.
    warnings.simplefilter("ignore", SecurityWarning)
    live.load_at_start()
    _await_namespace()
    watcher = live.ConfigWatcher()
    watcher.start()
    os.nice(NICENESS)
    signals.worker_shutting_down.connect(limit_drain)
    worker = Worker(
        app=app,
        quiet=True,
        without_gossip=True,
        without_heartbeat=True,
        without_mingle=True,
    )
    worker.start()
    watcher.stop()
    return int(worker.exitcode or 0)


def _await_namespace() -> None:
    """Wait for the database to confirm the namespace in which users' ids are derived.

    Raises `NamespaceMismatch` and `SecretsInvalid`.
    """
    # By its name: it has models, which only load once `main` has set Django up.
    establish: Callable[[], object] = import_string(
        "access.users.user_namespace.establish"
    )
    is_told = False
    while True:
        try:
            establish()
            return
        except (DatabaseError, InterfaceError) as exc:
            if not is_told:
                why = " ".join(str(exc).split())
                logger.warning("jobs wait: the database does not answer: %s", why)
                is_told = True
            time.sleep(RETRY_SECONDS)
        finally:
            connections.close_all()


def limit_drain(**_: Any) -> None:
    """End the process for good when a job takes too long to finish."""
    # Threads cannot be interrupted: Celery would wait for ever.
    timer = threading.Timer(DRAIN_SECONDS, _force_exit)
    timer.daemon = True
    timer.start()


def _force_exit() -> None:
    logger.warning("a job did not finish within %d s; it is cut off", DRAIN_SECONDS)
    logging.shutdown()
    os._exit(0)


def main() -> None:
    parent_watch.watch_command_line_pipe(grace_seconds=FORCE_EXIT_SECONDS)
    logs.capture_python_output()
    django.setup()
    try:
        sys.exit(run())
    except CoulisseError as exc:
        raise SystemExit(str(exc)) from exc
    finally:
        gc.freeze()  # As `manage.py` does: to tidy up takes half a second.


if __name__ == "__main__":
    main()
