"""The Django app of the studio's base."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AdminBaseApp(AppConfig):
    name = "admin_base"

    def ready(self) -> None:
        from admin_base import groups

        post_migrate.connect(groups.grant_permissions)
