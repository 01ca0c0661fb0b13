"""Django configuration of the experiments app."""

from django.apps import AppConfig


class ExperimentsApp(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        from experiments import checks  # noqa: F401  # registers them
