"""The Django app."""

from django.apps import AppConfig


class ProcessesApp(AppConfig):
    name = "processes"

    def ready(self) -> None:
        from processes import checks  # noqa: F401  # registers them
