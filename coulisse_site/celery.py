"""The Celery application: background jobs, in every app's `tasks.py`.

Whoever imports this module makes `celery.current_app` ours in all threads of the
process, so that code below this layer sends messages and declares jobs (`shared_task`)
without knowing it. A web process does at its start (`asgi.py`), which takes 45 ms and
6 MB; its first message takes 100 ms and 8 MB more. Management commands do not.
"""

import logging
import os
from typing import Any

import django
from celery import Celery, Task, signals
from django.apps import apps
from django.db import InterfaceError, OperationalError, close_old_connections

from core.runtime import request_ids

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")


def list_job_apps() -> list[str]:
    """Return the apps that may have a `tasks.py`."""
    django.setup()
    return [config.name for config in apps.get_app_configs()]


# Not Celery's own fix-up for Django: it puts the working directory before all that is
# installed, and a user's ./config would hide ours.
app = Celery("coulisse", fixups=[])
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(list_job_apps)
app.set_default()
# Not ours to mend, so not worth a traceback: `log_skipped_job` says it.
app.Task.throws = (OperationalError, InterfaceError)

logger = logging.getLogger(__name__)


@signals.setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Have Celery log the way settings say: a receiver is all it takes."""


@signals.task_prerun.connect
@signals.task_postrun.connect
def close_broken_connections(**_: Any) -> None:
    """Drop a job's database connection when it broke or, on SQLite, is done with."""
    close_old_connections()


@signals.task_failure.connect
def log_skipped_job(
    sender: "Task[Any, Any]", exception: BaseException, **_: Any
) -> None:
    """Say in a line that a job did nothing; it comes again."""
    if isinstance(exception, sender.throws):
        why = str(exception).strip().partition("\n")[0]
        logger.warning("%s waits: the database does not answer: %s", sender.name, why)


@signals.task_prerun.connect
def set_job_log_context(task_id: str, **_: Any) -> None:
    """Have the lines a job logs say which job they are about."""
    request_ids.current.set(f"job_{task_id}")


@signals.task_postrun.connect
def clear_job_log_context(**_: Any) -> None:
    """Have what the thread logs between two jobs be about neither."""
    request_ids.current.set("")
