"""The processes as Django knows them."""

from django.apps import AppConfig
from django.core import checks

from processes.checks import check_sidecars


class ProcessesApp(AppConfig):
    name = "processes"

    def ready(self) -> None:
        checks.register(check_sidecars)
