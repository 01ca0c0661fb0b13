"""The Django app."""

from django.apps import AppConfig


class TriggersApp(AppConfig):
    name = "triggers"

    def ready(self) -> None:
        from triggers import checks  # noqa: F401  # registers them
