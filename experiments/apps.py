"""Experiments as Django knows them."""

from django.apps import AppConfig
from django.core import checks


class ExperimentsApp(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from experiments.checks import check_bandits

        checks.register(check_bandits)
