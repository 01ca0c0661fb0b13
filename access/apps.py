"""Who may call, as Django knows it."""

from django.apps import AppConfig


class AccessApp(AppConfig):
    name = "access"

    def ready(self) -> None:
        from access import checks  # noqa: F401  # registers them
