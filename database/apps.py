"""The Django app of what all tables share."""

from django.apps import AppConfig


class DatabaseApp(AppConfig):
    name = "database"
    verbose_name = "Processes"

    def ready(self) -> None:
        from database import database_clock  # noqa: F401  # hears of connections
