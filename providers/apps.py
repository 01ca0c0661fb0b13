"""Providers as Django knows them."""

from django.apps import AppConfig
from django.core import checks


class ProvidersApp(AppConfig):
    name = "providers"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from providers.checks import check_prices

        checks.register(check_prices)
