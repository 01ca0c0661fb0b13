"""The Django app of the YAML configuration."""

from django.apps import AppConfig


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401  # registers them
