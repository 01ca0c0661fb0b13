"""Jobs that leave a trace in the project's folder."""

import time
from pathlib import Path

from celery import shared_task
from django.conf import settings

from agents.config import AGENTS
from config import live


@shared_task
def note(name: str) -> None:
    """Make a file of this name."""
    trace(name)


@shared_task
def linger(name: str, seconds: float) -> None:
    """Make a file when it begins, and another when it ends."""
    trace(f"{name}-begun")
    time.sleep(seconds)
    trace(f"{name}-ended")


@shared_task
def agents() -> None:
    """Make a file for every agent this process knows."""
    for name in live.current().get(AGENTS):
        trace(name)


def trace(name: str) -> None:
    Path(settings.COULISSE_CONFIG).with_name(name).touch()
