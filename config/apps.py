from django.apps import AppConfig
from django.core import checks

from config.checks import check_config


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        checks.register(check_config)
