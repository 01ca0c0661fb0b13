"""The Celery application, with the background jobs of every app's `tasks.py`.

Importing this module sets `celery.current_app` in all threads of the process, so that
code in lower layers sends messages and declares jobs (`shared_task`) without importing
it. A web process imports it at its start (`asgi.py`), which costs 45 ms and 6 MB; the
first message costs 100 ms and 8 MB more. Management commands do not import it.
"""

import logging
import os
import threading
from datetime import datetime
from typing import Any

import django
from celery import Celery, Task, signals
from django.apps import apps
from django.db import InterfaceError, OperationalError, connections

from core.runtime import request_ids, shared_clock
from coulisse_site import broker_transport

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")


def list_job_apps() -> list[str]:
    """Return the apps that may have a `tasks.py`."""
    django.setup()
    return [config.name for config in apps.get_app_configs()]


class Job(Task[Any, Any]):
    """A periodic job: a process does not run it twice at a time.

    Otherwise jobs that hang, for example on a provider, would accumulate.
    """

    # Database outages need no traceback: `on_failure` logs a line.
    throws = (OperationalError, InterfaceError)
    Request = "tasks.worker.celery_requests:JobRequest"
    _locks: dict[str, threading.Lock] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        lock = self._locks.setdefault(self.name, threading.Lock())
        if not lock.acquire(blocking=False):
            return None
        log_context = request_ids.current.set(f"job_{self.request.id}")
        try:
            return self.run(*args, **kwargs)
        finally:
            request_ids.current.reset(log_context)
            # The pool may have a thousand threads.
            connections.close_all()
            lock.release()

    def on_failure(self, exc: BaseException, *_: Any, **__: Any) -> None:
        """Log that a job was skipped; beat sends it again."""
        if isinstance(exc, self.throws):
            reason = str(exc).strip().partition("\n")[0]
            logger.warning("%s skipped: database unavailable: %s", self.name, reason)


class CoulisseCelery(Celery):
    """Celery by the database's time: beats of any clock see the same ticks."""

    def now(self) -> datetime:
        """Return the time of schedules, and of the expiry of messages."""
        return shared_clock.now()


broker_transport.install()
# Without Celery's fixup for Django, which prepends the working directory to `sys.path`:
# a user's ./config directory would shadow this project's package.
app = CoulisseCelery("coulisse", fixups=[], task_cls=Job)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(list_job_apps)
app.set_default()

logger = logging.getLogger(__name__)


@signals.setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Keep Django's logging settings: with a receiver, Celery configures none."""
