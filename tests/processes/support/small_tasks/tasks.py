"""Jobs that write files into the project's folder."""

import time
from pathlib import Path

from celery import shared_task
from django.conf import settings

from agents.config import AGENTS
from config import live


@shared_task
def write_file(name: str) -> None:
    """Write a file of this name."""
    _touch(name)


@shared_task
def write_slowly(name: str, seconds: float) -> None:
    """Write a file at the start and another at the end."""
    _touch(f"{name}-started")
    time.sleep(seconds)
    _touch(f"{name}-ended")


@shared_task
def write_agents() -> None:
    """Write a file for every agent in this process's configuration."""
    for name in live.current().get(AGENTS):
        _touch(name)


def _touch(name: str) -> None:
    Path(settings.COULISSE_CONFIG).with_name(name).touch()
