"""The project's settings around an application that starts in no time."""

from coulisse_site.settings import *  # noqa: F403

ASGI_APPLICATION = "tests.processes.small_app.application"
