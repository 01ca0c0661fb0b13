"""The project's settings, with jobs that leave a trace and a clock that hurries."""

from coulisse_site.settings import *  # noqa: F403
from coulisse_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.processes.small_tasks"]
CELERY_BEAT_SCHEDULE = {
    "tick": {
        "task": "tests.processes.small_tasks.tasks.note",
        "schedule": 0.5,
        "args": ["tick"],
    }
}
