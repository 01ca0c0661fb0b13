"""Smoke tests as Django knows them."""

from django.apps import AppConfig


class SmokeApp(AppConfig):
    name = "smoke"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from memory.user_data import registry
        from smoke import user_data

        for each in user_data.ALL:
            registry.register(each)
