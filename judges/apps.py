"""Django configuration of the judges app."""

from django.apps import AppConfig


class JudgesApp(AppConfig):
    name = "judges"

    def ready(self) -> None:
        from judges import checks  # noqa: F401  # registers them
