"""Judges as Django knows them."""

from django.apps import AppConfig
from django.core import checks


class JudgesApp(AppConfig):
    name = "judges"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from judges.checks import check_small_models

        checks.register(check_small_models)
