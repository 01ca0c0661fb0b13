"""`manage.py migrate`: Django's own, for the database beside the YAML."""

from typing import Any

from django.core.management.commands.migrate import Command as DjangoMigrate

from processes import state
from processes.command import ProcessCommand


class Command(ProcessCommand, DjangoMigrate):
    """Django's, which wants a directory to make the database in."""

    def handle(self, *args: Any, **options: Any) -> None:
        state.current().prepare()
        super().handle(*args, **options)
