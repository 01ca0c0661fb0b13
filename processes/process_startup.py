"""What the worker and beat do at their start and at their end."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import django
from django.db import DatabaseError, InterfaceError, connections
from django.utils.module_loading import import_string

from config import live
from core.errors import CoulisseError
from database import schema
from processes.supervision import parent_watch
from telemetry.log_output import logs

NICENESS = 5
"""Replies have priority: a worker gets a third of the CPU of a busy web process."""
RETRY_SECONDS = 2.0

logger = logging.getLogger(__name__)


def run_as_child(run: Callable[[], object], *, grace_seconds: float) -> None:
    """Run a child of the supervisor until its end, or that of the supervisor."""
    parent_watch.watch_command_line_pipe(grace_seconds=grace_seconds)
    logs.capture_python_output()
    django.setup()
    try:
        run()
    except CoulisseError as exc:
        raise SystemExit(str(exc)) from exc


@contextmanager
def prepared(work: str) -> Iterator[None]:
    """Load the YAML, wait for the database, and follow edits until the block ends.

    `work` names what waits, for the log. Raises `ConfigInvalid`, `NamespaceMismatch`
    and `SecretsInvalid`.
    """
    live.load_at_start()
    _await_database(work)
    watcher = live.ConfigWatcher()
    watcher.start()
    os.nice(NICENESS)
    yield
    watcher.stop()


def _await_database(work: str) -> None:
    """Wait until the database has all tables, and confirms the users' namespace."""
    # By its name, because its models load only after Django is set up.
    establish: Callable[[], object] = import_string(
        "access.users.user_namespace.establish"
    )
    is_logged = False
    while True:
        try:
            missing = schema.missing_migrations()
            if not missing:
                establish()
                return
            reason = f"it lacks {schema.describe(missing)}"
        except (DatabaseError, InterfaceError) as exc:
            reason = " ".join(str(exc).split())
        finally:
            connections.close_all()
        if not is_logged:
            logger.warning("%s wait for the database: %s", work, reason)
            is_logged = True
        time.sleep(RETRY_SECONDS)
