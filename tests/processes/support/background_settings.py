"""The project's settings, with jobs that write files and a fast schedule."""

from coulisse_site.settings import *  # noqa: F403
from coulisse_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.processes.support.small_tasks"]
CELERY_BEAT_SCHEDULE = {
    "tick": {
        "task": "tests.processes.support.small_tasks.tasks.write_file",
        "schedule": 1,
        "args": ["tick"],
    }
}
