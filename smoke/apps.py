"""Smoke tests as Django knows them."""

from django.apps import AppConfig


class SmokeApp(AppConfig):
    name = "smoke"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from memory import belongings
        from smoke import belonging, conversation
        from tasks import kinds

        kinds.register(conversation.KIND)
        for each in belonging.ALL:
            belongings.register(each)
