"""`manage.py migrate`: Django's own, for the database beside the YAML."""

from typing import Any

from django.core.management.commands.migrate import Command as DjangoMigrate

from processes.server.base_command import ProcessCommand
from processes.supervision import state_directory


class Command(ProcessCommand, DjangoMigrate):
    """Django's, which wants a directory to make the database in."""

    def handle(self, *args: Any, **options: Any) -> None:
        state_directory.current().prepare()
        super().handle(*args, **options)
