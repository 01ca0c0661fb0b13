"""Triggers as Django knows them."""

from django.apps import AppConfig
from django.core import checks


class TriggersApp(AppConfig):
    name = "triggers"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from triggers.checks import check_triggers

        checks.register(check_triggers)
