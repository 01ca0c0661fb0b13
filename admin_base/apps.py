"""The Django app of the studio's base."""

from django.apps import AppConfig


class AdminBaseApp(AppConfig):
    name = "admin_base"

    def ready(self) -> None:
        from admin_base import groups

        groups.connect()
