from django.apps import AppConfig
from django.core import checks


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config.checks import check_config

        checks.register(check_config)
