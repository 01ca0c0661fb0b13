"""The Celery application, with the background jobs of every app's `tasks.py`.

Importing this module sets `celery.current_app` in all threads of the process, so that
code in lower layers sends messages and declares jobs (`shared_task`) without importing
it. A web process imports it at its start (`asgi.py`), which costs 45 ms and 6 MB; the
first message costs 100 ms and 8 MB more. Management commands do not import it.
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


# Without Celery's fixup for Django, which prepends the working directory to `sys.path`:
# a user's ./config directory would shadow this project's package.
app = Celery("coulisse", fixups=[])
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(list_job_apps)
app.set_default()
# Database outages need no traceback: `log_skipped_job` logs a line.
app.Task.throws = (OperationalError, InterfaceError)

logger = logging.getLogger(__name__)


@signals.setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Keep Django's logging settings: with a receiver, Celery configures none."""


@signals.task_prerun.connect
@signals.task_postrun.connect
def close_broken_connections(**_: Any) -> None:
    """Close a job's database connection if it is broken or expired."""
    close_old_connections()


@signals.task_failure.connect
def log_skipped_job(
    sender: "Task[Any, Any]", exception: BaseException, **_: Any
) -> None:
    """Log that a job was skipped; beat sends it again."""
    if isinstance(exception, sender.throws):
        reason = str(exception).strip().partition("\n")[0]
        logger.warning("%s skipped: database unavailable: %s", sender.name, reason)


@signals.task_prerun.connect
def set_job_log_context(task_id: str, **_: Any) -> None:
    """Add the job's id to its log lines."""
    request_ids.current.set(f"job_{task_id}")


@signals.task_postrun.connect
def clear_job_log_context(**_: Any) -> None:
    """Remove the job's id from later log lines of the thread."""
    request_ids.current.set("")
