"""Turns as Django knows them."""

from django.apps import AppConfig
from django.core import checks


class TurnsApp(AppConfig):
    name = "turns"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from turns.checks import (
            check_bandits,
            check_judges,
            check_memory,
            check_prices,
        )

        checks.register(check_bandits)
        checks.register(check_judges)
        checks.register(check_memory)
        checks.register(check_prices)
