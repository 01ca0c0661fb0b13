"""`coulisse migrate`: Django's command, which refuses databases it cannot upgrade."""

from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from config.management.base import ConfigCommand
from processes.errors import SchemaUnknown
from processes.supervision import state_directory


class Command(ConfigCommand, DjangoMigrate):
    """Creates the directory of the SQLite database first."""

    def handle(self, *args: Any, **options: Any) -> None:
        state_directory.current_state().prepare()
        _refuse_unknown_schema()
        super().handle(*args, **options)


def _refuse_unknown_schema() -> None:
    """Raise `SchemaUnknown` for tables that these migrations cannot upgrade.

    Such a database has migrations of an app that this version does not have, and lacks
    some that it has. A database of a later version lacks none, so it passes.
    """
    loader = MigrationLoader(connection)
    known, applied = set(loader.disk_migrations), set(loader.applied_migrations)
    own = {app.label for app in apps.get_app_configs() if _is_own(app.path)}
    unknown = sorted(key for key in applied - known if key[0] in own)
    behind = {label for label, _ in known - applied}
    names = [f"{label}.{name}" for label, name in unknown if label in behind]
    if names:
        raise SchemaUnknown(
            "this database was created by an earlier version of Coulisse that cannot "
            f"be upgraded (it has the migration {names[0]}). Keep a copy, then delete "
            "the SQLite database with `coulisse reset`, or point DATABASE_URL to an "
            "empty one"
        )


def _is_own(path: str) -> bool:
    return Path(path).parent == settings.BASE_DIR
