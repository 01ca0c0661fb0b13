"""Who may call, as Django knows it."""

from django.apps import AppConfig
from django.core import checks


class AccessApp(AppConfig):
    name = "access"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from access.checks import check_auth, check_user_namespace

        checks.register(check_auth)
        checks.register(check_user_namespace)
