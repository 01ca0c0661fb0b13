"""The Django app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class MemoryApp(AppConfig):
    name = "memory"

    def ready(self) -> None:
        from memory import checks  # noqa: F401  # registers the checks
        from memory.models import users

        pre_migrate.connect(users.drop_view, sender=self)
        post_migrate.connect(users.create_view, sender=self)
