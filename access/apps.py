"""The Django app of authentication, tokens, limits and the audit."""

from django.apps import AppConfig


class AccessApp(AppConfig):
    name = "access"

    def ready(self) -> None:
        from access import checks  # noqa: F401  # registers them
