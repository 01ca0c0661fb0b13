"""Memory as Django knows it."""

from django.apps import AppConfig
from django.core import checks


class MemoryApp(AppConfig):
    name = "memory"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from memory.checks import check_memory

        checks.register(check_memory)
