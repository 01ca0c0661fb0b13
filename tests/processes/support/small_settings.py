"""The project's settings with an application that starts at once."""

from coulisse_site.settings import *  # noqa: F403

ASGI_APPLICATION = "tests.processes.support.small_app.application"
