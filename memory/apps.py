"""The Django app."""

from django.apps import AppConfig


class MemoryApp(AppConfig):
    name = "memory"

    def ready(self) -> None:
        from memory import checks  # noqa: F401  # registers the checks
