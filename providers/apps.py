"""The Django app of the providers."""

from django.apps import AppConfig


class ProvidersApp(AppConfig):
    name = "providers"

    def ready(self) -> None:
        from providers import checks  # noqa: F401  # registers them
